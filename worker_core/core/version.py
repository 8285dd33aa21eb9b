"""The version of this program."""

from worker_core.wire.versions import installed_version

VERSION = installed_version()
