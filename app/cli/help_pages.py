"""Commands whose help shows a type only where a person has to write something: a flag takes nothing."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command with plain flags in its help."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, the one for help included."""
        return _with_plain_flags(super().get_params(ctx))


class Group(TyperGroup):
    """Commands under one word, with plain flags in its help."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, the one for help included."""
        return _with_plain_flags(super().get_params(ctx))


def _with_plain_flags(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters
