"""What a caller names: dates, inclusive ranges of them, owners and reasons. A partition is its `dt`, YYYY-MM-DD."""

from __future__ import annotations

from datetime import date

from backfill_core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def parse_date(text: str) -> date:
    """Return the calendar day that `text` names, written YYYY-MM-DD and in no other way.

    Raises:
        UsageError: the text has another form, or names a day that the calendar doesn't have.
    """
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is not None and day.isoformat() == text:  # newer versions of Python read other forms too
        return day
    raise UsageError(f"not a date: {text!r}; write a day of the calendar as YYYY-MM-DD")


class DateRange:
    """The days from `first` to `last`, inclusive at both ends: at least one.

    Iterates the partitions' names, in date order.

    Raises:
        UsageError: `last` is before `first`, or either is a `datetime`.
    """

    __slots__ = ("first", "last")

    def __init__(self, first: date, last: date) -> None:
        if type(first) is not date or type(last) is not date:
            raise UsageError(f"a range is made of dates, not of {first!r} and {last!r}")
        if last < first:
            raise UsageError(f"the range ends before it starts: {first} to {last}")
        self.first = first
        self.last = last

    @classmethod
    def parse(cls, first: str, last: str) -> DateRange:
        """Return the range between two days written YYYY-MM-DD, inclusive.

        Raises:
            UsageError: either is no such date, or the range ends before it starts.
        """
        return cls(parse_date(first), parse_date(last))

    def __iter__(self) -> Iterator[str]:
        for ordinal in range(self.first.toordinal(), self.last.toordinal() + 1):
            yield date.fromordinal(ordinal).isoformat()

    def __len__(self) -> int:
        return self.last.toordinal() - self.first.toordinal() + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DateRange) and (self.first, self.last) == (other.first, other.last)

    def __hash__(self) -> int:
        return hash((self.first, self.last))

    def __repr__(self) -> str:
        return f"DateRange({self.first} to {self.last}, inclusive)"


EVER = DateRange(date.min, date.max)


def check_text(what: str, text: str) -> str:
    """Return the owner or reason as given, any text but an empty one.

    what: the word for it in the error's sentence.

    Raises:
        UsageError: it is blank, or holds what no database can keep as text (NUL, half a surrogate pair).
    """
    if not text.strip():
        raise UsageError(f"the {what} is empty")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise UsageError(f"the {what} is not text that can be stored: {text!a}")
    return text
