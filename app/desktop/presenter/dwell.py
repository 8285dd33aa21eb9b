"""How long a picture stays: changes faster than a person can read are left out, problems are shown at once."""

from dataclasses import dataclass

from app.desktop.presenter.status import IconKey

MIN_DWELL_S = 1.0


@dataclass
class Dwell:
    """Decides when the next picture is due."""

    shown: IconKey | None = None
    since_s: float = 0.0

    def wait_s(self, wanted: IconKey, now_s: float) -> float:
        """Return the seconds until ``wanted`` may be shown; 0 means now."""
        if self.shown is None or wanted == self.shown or wanted == "problem":
            return 0.0
        return max(0.0, self.since_s + MIN_DWELL_S - now_s)

    def show(self, key: IconKey, now_s: float) -> bool:
        """Note that ``key`` is shown from now on; tells whether that is a change."""
        if key == self.shown:
            return False
        self.shown, self.since_s = key, now_s
        return True
