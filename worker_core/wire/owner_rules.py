"""The owner's rules: when this machine may train, as data. Everything is off unless it is set."""

from typing import Annotated, Literal

import msgspec

from worker_core.wire.codec import Message

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ClockTime = Annotated[str, msgspec.Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
"""``08:00``, as the clocks of this place show it."""
RuleName = Literal["hours", "in-use", "battery", "heat", "program", "metered"]
Program = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class Hours(Message):
    """A span of the week. One that ends at or before its beginning ends on the next day."""

    begin: ClockTime
    end: ClockTime
    days: Annotated[tuple[Day, ...], msgspec.Meta(min_length=1, max_length=7)] = DAYS


class OwnerRules(Message):
    """What the owner wants of the worker; without any of it the machine trains whenever there is a job."""

    hours: Annotated[tuple[Hours, ...], msgspec.Meta(max_length=50)] = ()
    """Jobs run only in these hours; empty: always."""
    after_hours: Literal["drain", "stop"] = "stop"
    """What happens to a running job when the hours end."""
    idle_minutes: Annotated[float, msgspec.Meta(ge=0, le=1440)] = 0.0
    """Jobs run only when nobody has used keyboard or mouse for so long; 0: always."""
    pause_on_battery: bool = True
    """Whether jobs are stopped while the machine runs on its battery, or on an emergency supply."""
    max_gpu_c: Annotated[float, msgspec.Meta(ge=0, le=120)] = 0.0
    """Jobs are stopped when a GPU stays at this temperature; 0: never."""
    programs: Annotated[tuple[Program, ...], msgspec.Meta(max_length=50)] = ()
    """Names of programs beside which nothing trains, such as a game."""
    pause_on_metered: bool = False
    """Whether no further job is taken while the network is paid for by volume."""
    keep_awake: Literal["never", "on-mains", "always"] = "on-mains"
    """When the machine is kept from falling asleep while a job runs."""
