"""Errors that are the user's to mend, told apart from faults of ours.

A `UserError` says what is wrong, why, and what to do; the command line prints its message alone
and exits with status 2. Anything else is a fault of the program and keeps its traceback.
"""


class UserError(ValueError):
    """Wrong input, settings or surroundings. The message says what, why and what to do."""
