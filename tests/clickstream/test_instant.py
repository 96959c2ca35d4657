from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickstream.errors import UsageError
from clickstream.instant import EARLIEST, LATEST, Instant, parse, spell, spell_in_record


@pytest.mark.parametrize(
    "text",
    [
        "2024-02-29T12:00:00Z", "2024-02-29T12:00Z", "2024-02-29 12:00:00Z",
        "2024-02-29t12:00:00z",
        "2024-02-29T12:00:00.000000Z",
        "2024-02-29T15:00:00+03:00", "2024-02-29T15:00+0300", "2024-02-29T06:30:00-05:30",
        "2024-03-01T02:00:00+14:00", " 2024-02-29T12:00:00+00:00\n",
    ],
)  # fmt: skip
def test_every_spelling_of_an_instant_is_the_same_instant(text: str) -> None:
    instant = parse(text)

    assert spell(instant) == "2024-02-29T12:00:00Z"
    assert spell_in_record(instant) == "2024-02-29 12:00:00.000000"


@pytest.mark.parametrize(
    "text",
    [
        "2024-02-29T12:00:00", "2024-02-29", "2023-02-29T12:00:00Z", "2024-02-29T24:00:00Z", "2024-02-29T23:59:60Z", "",
        "now", "1709208000", "2024-02-29T12:00:00.1234567Z", "2024-02-29T12:00.5Z", "2024-02-29T12:00:00+25:00",
        "2024-02-29T12:00:00+03:60", "1969-12-31T23:59:59Z", "2300-01-01T00:00:00Z", "1970-01-01T00:00:00+01:00",
        "٢٠٢٤-02-29T12:00:00Z", "0000-01-01T00:00:00Z", "2024-02-29T12:00:00 Z", "2024-02-29T12:00:00Z[UTC]",
    ],
)  # fmt: skip
def test_what_is_no_instant_or_has_no_offset_is_refused_with_its_own_text(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)

    assert repr(text) in str(caught.value)


@given(st.integers(EARLIEST, LATEST))
def test_an_instant_survives_its_spelling(micros: int) -> None:
    assert parse(spell(Instant(micros))) == micros


@given(st.integers(EARLIEST, LATEST), st.integers(EARLIEST, LATEST))
def test_the_spellings_in_records_sort_as_the_instants_do(one: int, other: int) -> None:
    assert (spell_in_record(Instant(one)) < spell_in_record(Instant(other))) == (one < other)
