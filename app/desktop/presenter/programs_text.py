"""Names of programs as one line of text, which a keyboard can change: ``blender, game``."""

MOST_PROGRAMS = 50
LONGEST_NAME = 100


class BadPrograms(ValueError):
    """Text that names too many programs or one too long; says what is wrong and what is right."""


def programs_text(programs: tuple[str, ...]) -> str:
    """Return names of programs as text; empty for none."""
    return ", ".join(programs)


def parse_programs(text: str) -> tuple[str, ...]:
    """Return the programs that a text names; raises :class:`BadPrograms`."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if len(names) > MOST_PROGRAMS:
        raise BadPrograms(f"These are {len(names)} programs; {MOST_PROGRAMS} are the most.")
    for name in names:
        if len(name) > LONGEST_NAME:
            raise BadPrograms(
                f"“{name[:20]}…” has {len(name)} characters; a program's name has {LONGEST_NAME} at most. "
                "Are two names without a comma between them?"
            )
    return names
