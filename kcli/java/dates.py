"""Dates formatted and parsed by patterns of Java's SimpleDateFormat, in UTC and English (Locale.US).

    G era   y year   Y week year   M L month   d day   D day of the year   E day's name   u its number, 1 is Monday
    w week of the year   W week of the month   F which of its weekdays in the month
    a AM or PM   H hour 0-23   k 1-24   K 0-11   h 1-12   m minute   s second   S millisecond
    z zone's name   Z +0000   X Z, +00, +0000 or +00:00   '...' text   '' a quotation mark

Parsing is lenient: the 32nd of January is the 1st of February. Text behind the date is passed over. Of the names of
time zones only UTC and GMT are known, and no date is made of W or F. Dates before 15 October 1582 are in the Julian
calendar; week years are those of our time alone.

Source: java.text.SimpleDateFormat, java.util.GregorianCalendar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kcli.java.values import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

DAY_MS: Final = 86_400_000
_LETTERS: Final = frozenset("GyMdkHmsSEDFwWahKzZYuXL")
_NUMERIC: Final = frozenset("ydkHmsSDFwWhKYu")
_CUTOVER_DAY: Final = -141427
"""15 October 1582, in days since 1970: the first day of the Gregorian calendar."""
_CUTOVER_YEAR: Final = 1582
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_ERAS: Final = ("BC", "AD")
_HALVES: Final = ("AM", "PM")
_ZONES: Final = ("Coordinated Universal Time", "UTC", "UCT", "Zulu")
_SHORT: Final = 3
_SPANS: Final = {1: "S", 1000: "s", 60_000: "m", 3_600_000: "HkKha"}
_CENTURY: Final = 100
_CENTURY_BACK_YEARS: Final = 80
"""A year of two digits is at most so many years ago."""


class BadPattern(ValueError):
    """A pattern that SimpleDateFormat refuses; the text is Java's."""


class BadDate(ValueError):
    """A text that does not match the pattern."""


class _Piece(NamedTuple):
    """A part of a pattern. letter: empty for text. repeated: how often the letter stands there."""

    letter: str
    repeated: int
    text: str = ""


class DateFormat:
    """A pattern. Raises BadPattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._pieces = tuple(_pieces(pattern))

    @property
    def span_ms(self) -> int:
        """A length of time, in milliseconds, within which, from a multiple of it on, all dates have one text."""
        return min(
            (span for span, letters in _SPANS.items() if any(p.letter in letters for p in self._pieces if p.letter)),
            default=DAY_MS,
        )

    def format(self, millis: int) -> str:
        """Return the text of a date. millis: milliseconds since 1970."""
        fields = _Fields(millis)
        return "".join(piece.text or _formatted(piece, fields) for piece in self._pieces)

    def parse(self, text: str, now_ms: int = 0) -> int:
        """Return the date of a text in milliseconds since 1970. now_ms: the time, which tells the century of a year
        with two digits. Raises BadDate."""
        parsing = _Parsing(text, _Fields(now_ms).year - _CENTURY_BACK_YEARS)
        for piece, following in pairwise((*self._pieces, _Piece("", 0))):
            parsing.take(piece, following)
        if not parsing.at:
            raise BadDate(text)
        millis = _millis(parsing.found)
        if parsing.is_ambiguous and millis < _years_before(now_ms, _CENTURY_BACK_YEARS):
            parsing.found["y"] += _CENTURY
            return _millis(parsing.found)
        return millis


def _pieces(pattern: str) -> Iterator[_Piece]:
    at, text, quoted = 0, "", False
    while at < len(pattern):
        char = pattern[at]
        if char == "'":
            if pattern.startswith("''", at):
                text += "'"
                at += 1
            else:
                quoted = not quoted
            at += 1
        elif quoted or not (char.isascii() and char.isalpha()):
            text += char
            at += 1
        else:
            if char not in _LETTERS:
                raise BadPattern(f"Illegal pattern character '{char}'")
            if text:
                yield _Piece("", 0, text)
                text = ""
            begin = at
            while at < len(pattern) and pattern[at] == char:
                at += 1
            if char == "X" and at - begin > _SHORT:
                raise BadPattern(f"invalid ISO 8601 format: length={at - begin}")
            yield _Piece(char, at - begin)
    if quoted:
        raise BadPattern("Unterminated quote")
    if text:
        yield _Piece("", 0, text)


class _Fields:
    """The fields of a date. year: of the era. month: from 0. weekday: from 0, Sunday."""

    def __init__(self, millis: int) -> None:
        days, self.day_ms = divmod(millis, DAY_MS)
        self.days = days
        year, self.month, self.day = _civil(days)
        self.era = int(year > 0)
        self.proleptic = year
        self.year = year if year > 0 else 1 - year
        self.weekday = (days + 4) % 7
        self.day_of_year = days - _first_day(year) + 1

    @property
    def week_of_year(self) -> int:
        return self._week_year()[1]

    @property
    def week_year(self) -> int:
        return self._week_year()[0]

    def _week_year(self) -> tuple[int, int]:
        """Return the week year and the week in it. A week begins on a Sunday; the first one has the 1st of January."""
        year = self.proleptic
        if self.days >= _week_begin(year + 1):
            return year + 1, 1
        return year, (self.days - _week_begin(year)) // 7 + 1

    @property
    def week_of_month(self) -> int:
        first_weekday = (self.weekday - self.day + 1) % 7
        return (self.day - 1 + first_weekday) // 7 + 1


def _week_begin(year: int) -> int:
    first = _first_day(year)
    return first - (first + 4) % 7


def _first_day(year: int) -> int:
    return _days_of(year, 0, 1)


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month from 0, and day of a day since 1970. Years before the first are 0 and less."""
    shifted = days + 719468 if days >= _CUTOVER_DAY else days + 719470
    if days >= _CUTOVER_DAY:
        era, rest = divmod(shifted, 146097)
        of_era = (rest - rest // 1460 + rest // 36524 - rest // 146096) // 365
        day = rest - (365 * of_era + of_era // 4 - of_era // 100)
        year = of_era + era * 400
    else:
        era, rest = divmod(shifted, 1461)
        of_era = min(rest // 365, 3)
        day = rest - 365 * of_era
        year = of_era + era * 4
    shifted_month = (5 * day + 2) // 153
    month = (shifted_month + 2) % 12
    return year + (month < 2), month, day - (153 * shifted_month + 2) // 5 + 1


def _days_of(year: int, month: int, day: int) -> int:
    """Return the day since 1970 of a date, whose month (from 0) and day may be beyond the year and the month."""
    year, month = year + month // 12, month % 12
    shifted_year = year - (month < 2)
    of_year = (153 * ((month + 10) % 12) + 2) // 5 + day - 1
    gregorian = shifted_year * 365 + shifted_year // 4 - shifted_year // 100 + shifted_year // 400 + of_year - 719468
    julian = shifted_year * 365 + shifted_year // 4 + of_year - 719470
    if year > _CUTOVER_YEAR or (year == _CUTOVER_YEAR and gregorian >= _CUTOVER_DAY):
        return gregorian
    return julian


def _formatted(piece: _Piece, fields: _Fields) -> str:
    letter, count = piece.letter, piece.repeated
    if letter in "yY":
        year = fields.year if letter == "y" else fields.week_year
        return f"{year % _CENTURY:02}" if count == 2 else f"{'-' * (year < 0)}{abs(year):0{count}}"
    if letter in "ML" and count >= _SHORT:
        return _MONTHS[fields.month][: None if count > _SHORT else _SHORT]
    if letter == "E":
        return _DAYS[fields.weekday][: None if count > _SHORT else _SHORT]
    hour = fields.day_ms // 3_600_000
    match letter:
        case "G":
            return _ERAS[fields.era]
        case "a":
            return _HALVES[hour >= 12]
        case "z":
            return _ZONES[0] if count > _SHORT else _ZONES[1]
        case "Z":
            return "+0000"
        case "X":
            return "Z"
        case _:
            return f"{_number(letter, fields, hour):0{count}}"


def _number(letter: str, fields: _Fields, hour: int) -> int:
    match letter:
        case "M" | "L":
            return fields.month + 1
        case "d":
            return fields.day
        case "D":
            return fields.day_of_year
        case "F":
            return (fields.day - 1) // 7 + 1
        case "u":
            return fields.weekday or 7
        case "w":
            return fields.week_of_year
        case "W":
            return fields.week_of_month
        case "H":
            return hour
        case "k":
            return hour or 24
        case "K":
            return hour % 12
        case "h":
            return hour % 12 or 12
        case "m":
            return fields.day_ms // 60_000 % 60
        case "s":
            return fields.day_ms // 1000 % 60
        case _:
            return fields.day_ms % 1000


class _Parsing:
    """A text, read up to `at`. found: the fields, by the letters y Y G M d D E w H h a m s S and z, the later ones
    last; M is from 0, E from 1 on Sunday, z milliseconds."""

    def __init__(self, text: str, century_start: int) -> None:
        self.text = text
        self.at = 0
        self.found: dict[str, int] = {}
        self.is_ambiguous = False
        self._century_start = century_start

    def take(self, piece: _Piece, following: _Piece) -> None:
        """Read a piece of the pattern. Raises BadDate."""
        if not piece.letter:
            if not self.text.startswith(piece.text, self.at):
                raise BadDate(self.text)
            self.at += len(piece.text)
            return
        start = self.at
        while self.text.startswith((" ", "\t"), self.at):
            self.at += 1
        if self.at == len(self.text):
            raise BadDate(self.text)
        letter, count = piece.letter, piece.repeated
        if letter in _NUMERIC or (letter in "ML" and count < _SHORT):
            follows = following.letter
            is_next = follows in _NUMERIC if follows else False
            obeys = is_next or (follows in ("M", "L") and following.repeated < _SHORT)
            begin = self.at
            self._put(letter, count, self._number(start + count if obeys else None), begin)
            return
        match letter:
            case "M" | "L":
                self._set("M", self._name(start, _MONTHS))
            case "E":
                self._set("E", self._name(start, _DAYS) + 1)
            case "G":
                self._set("G", self._name(start, _ERAS))
            case "a":
                self._set("a", self._name(start, _HALVES))
            case "X":
                self._iso_zone(count)
            case _:
                self._zone(start)

    def _set(self, letter: str, value: int) -> None:
        self.found.pop(letter, None)
        self.found[letter] = value

    def _put(self, letter: str, count: int, value: int, begin: int) -> None:
        """Set a number's field. begin: where the number begins."""
        match letter:
            case "y" | "Y":
                self._set(letter, self._year(value, count, begin))
            case "M" | "L":
                self._set("M", value - 1)
            case "k":
                self._set("H", 0 if value == 24 else value)
            case "K":
                self._set("h", value)
            case "h":
                self._set("h", 0 if value == 12 else value)
            case "u":
                self._set("E", value % 7 + 1 if 1 <= value <= 7 else value)
            case "F" | "W":
                raise BadDate(self.text)
            case _:
                self._set(letter, value)

    def _year(self, value: int, count: int, begin: int) -> int:
        digits = self.text[begin : self.at]
        if count <= 2 and len(digits) == 2 and digits.isdecimal():
            start = self._century_start
            self.is_ambiguous = value == start % _CENTURY
            value += start // _CENTURY * _CENTURY + (_CENTURY if value < start % _CENTURY else 0)
        return value

    def _number(self, limit: int | None) -> int:
        """Read an integer. limit: the index after its last digit; None up to the first character that is no digit."""
        if limit is not None and limit > len(self.text):
            raise BadDate(self.text)
        stop = len(self.text) if limit is None else limit
        begin = at = self.at
        if at < stop and self.text[at] == "-":
            at += 1
        first = at
        while at < stop and self.text[at].isdecimal():
            at += 1
        if first == at:
            raise BadDate(self.text)
        self.at = at
        digits = self.text[first:at].lstrip("0")[:20] or "0"
        value = -int(digits) if begin != first else int(digits)
        if LONG_MIN <= value <= LONG_MAX:
            return (value - INT_MIN & 0xFFFFFFFF) + INT_MIN
        return INT_MAX if value > 0 else INT_MIN

    def _name(self, start: int, names: Sequence[str]) -> int:
        """Read a name, the longest that matches, in full or its first three letters. Returns its number."""
        found = [
            (len(each), number)
            for number, name in enumerate(names)
            for each in (name, name[:_SHORT])
            if self.text[start : start + len(each)].lower() == each.lower()
        ]
        if not found:
            raise BadDate(self.text)
        length, number = max(found)
        self.at = start + length
        return number

    def _zone(self, start: int) -> None:
        sign = _sign(self.text, self.at)
        if sign:
            self._offset(self.at + 1, sign, 0, has_colon=False)
        elif self.text[start : start + 3].lower() == "gmt":
            self.at = start + 3
            sign = _sign(self.text, self.at)
            if sign:
                self._offset(self.at + 1, sign, 0, has_colon=True)
            else:
                self._set("z", 0)
        else:
            names = [each for each in _ZONES if self.text[self.at : self.at + len(each)].lower() == each.lower()]
            if not names:
                raise BadDate(self.text)
            self.at += len(names[0])
            self._set("z", 0)

    def _iso_zone(self, count: int) -> None:
        sign = _sign(self.text, self.at)
        if self.text[self.at] == "Z":
            self.at += 1
            self._set("z", 0)
        elif sign:
            self._offset(self.at + 1, sign, count, has_colon=count == _SHORT)
        else:
            raise BadDate(self.text)

    def _offset(self, at: int, sign: int, count: int, *, has_colon: bool) -> None:
        """Read hours and minutes of an offset. count: of X; 0 for another letter."""
        text = self.text
        hours = text[at : at + 2]
        if not _digits(hours, 2):
            hours = hours[:1]
            if count or not has_colon or not _digits(hours, 1):
                raise BadDate(text)
        at += len(hours)
        minutes = "0"
        if count != 1:
            if has_colon:
                if text[at : at + 1] != ":":
                    raise BadDate(text)
                at += 1
            minutes = text[at : at + 2]
            if not _digits(minutes, 2):
                raise BadDate(text)
            at += 2
        if int(hours) > 23 or int(minutes) > 59:
            raise BadDate(text)
        self.at = at
        self._set("z", sign * (int(hours) * 60 + int(minutes)) * 60_000)


def _sign(text: str, at: int) -> int:
    return {"+": 1, "-": -1}.get(text[at : at + 1], 0)


def _digits(text: str, count: int) -> bool:
    return len(text) == count and text.isascii() and text.isdigit()


def _millis(found: dict[str, int]) -> int:
    """Return the date with these fields; of those that contradict each other the later one counts."""
    order = list(found)
    year = found.get("y", 1970)
    if found.get("G") == 0:
        year = 1 - year
    if "Y" in found and order.index("Y") > (order.index("y") if "y" in found else -1):
        days = _week_begin(found["Y"]) + (found.get("w", 1) - 1) * 7 + found.get("E", 1) - 1
    elif "D" in found and ("d" not in found or order.index("D") > order.index("d")):
        days = _first_day(year) + found["D"] - 1
    elif "d" not in found and ("E" in found or "w" in found):
        days = _on_weekday(year, found)
    else:
        days = _days_of(year, found.get("M", 0), found.get("d", 1))
    is_half = "H" not in found or ("h" in found and "a" in found and _later(order, "H"))
    hour = found.get("h", 0) + 12 * found.get("a", 0) if is_half else found["H"]
    minutes = hour * 60 + found.get("m", 0)
    millis = (minutes * 60 + found.get("s", 0)) * 1000 + found.get("S", 0) - found.get("z", 0)
    total = days * DAY_MS + millis
    return (total - LONG_MIN & (1 << 64) - 1) + LONG_MIN


def _on_weekday(year: int, found: dict[str, int]) -> int:
    """Return the day of a weekday in a week of the year, else the first such day of a month."""
    if "w" in found:
        return _week_begin(year) + (found["w"] - 1) * 7 + found.get("E", 1) - 1
    first = _days_of(year, found.get("M", 0), 1)
    return first + (found["E"] - 1 - (first + 4)) % 7


def _later(order: list[str], letter: str) -> bool:
    """Return whether a half of the day or its hour was found after the letter."""
    return max(order.index("h"), order.index("a")) > order.index(letter)


def _years_before(millis: int, years: int) -> int:
    fields = _Fields(millis)
    return _days_of(fields.proleptic - years, fields.month, fields.day) * DAY_MS + fields.day_ms
