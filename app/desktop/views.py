"""The windows that can be opened by name, so that no menu offers one that is not there."""

VIEWS: frozenset[str] = frozenset({"status", "pair", "metrics", "settings"})
