"""Errors whose text is meant for the person who hosts a coordinator.

HostError
├── BadSettings      coordinator.settings
├── FolderInUse      coordinator.storage.data_folder
├── UnusableFolder   coordinator.storage.data_folder
├── UnusableDatabase coordinator.storage.database
├── UnusableKey      coordinator.accounts.keys
├── BadAccount       coordinator.accounts.people
├── CannotServe      coordinator.serve
└── CommandFailed    coordinator.host_commands
"""


class HostError(Exception):
    """Something cannot be done; the text says what, why and the cure."""
