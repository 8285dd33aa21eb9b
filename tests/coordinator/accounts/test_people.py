"""Passwords: what an unknown e-mail costs must not show."""

from argon2 import PasswordHasher

from coordinator.accounts.people import HASH_OF_NOBODY


def test_an_unknown_email_costs_what_a_known_one_does():
    assert not PasswordHasher().check_needs_rehash(HASH_OF_NOBODY)
