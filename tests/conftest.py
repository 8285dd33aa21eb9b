"""What holds for all tests."""

import signal

# Who starts the tests in the background may leave Ctrl-C ignored, and every process started here would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
