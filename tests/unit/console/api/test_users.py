from __future__ import annotations

import pytest

from ottla.console.api.users import NewPassword, check_password
from ottla.console.web.failures import ApiError


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (NewPassword("", "SCRAM-SHA-256", "x"), "user"),
        (NewPassword("a", "PLAIN", "x"), "mechanism"),
        (NewPassword("a", "SCRAM-SHA-256", ""), "password"),
        (NewPassword("a", "SCRAM-SHA-256", "x", 1), "iterations"),
        (NewPassword("a", "SCRAM-SHA-256", "x", 10**9), "iterations"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(given: NewPassword, field: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_password(given)
    assert refused.value.field == field


def test_a_password_is_not_shown() -> None:
    assert "s3cr3t" not in repr(NewPassword("a", "SCRAM-SHA-256", "s3cr3t"))
