"""A terminal that is a list of lines: what people see after a program wrote and moved its cursor.

terminal = Terminal(width=80)
terminal.feed("┌──┐\\x1b[1A\\x1b[2Kgone")
assert "┌" not in terminal.text
"""

import re

# A control sequence, a line break, or text between them.
_TOKEN = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")
# The beginning of a control sequence, whose rest comes with the next text.
_PART = re.compile(r"\x1b(\[[?0-9;]*)?\Z")


class Terminal:
    """As much of a terminal as a live view uses: it wraps, moves up, and clears lines."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._lines: list[str] = [""]
        self._row = self._column = 0
        self._part = ""

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._lines)

    def feed(self, text: str) -> None:
        """Show what a program wrote; a line end also returns to the first column."""
        text = self._part + text
        part = _PART.search(text)
        self._part = part[0] if part else ""
        for number, letter, line_break, words in _TOKEN.findall(text.removesuffix(self._part)):
            if letter == "A":
                self._row = max(0, self._row - int(number or 1))
            elif letter == "K":
                self._lines[self._row] = (
                    "" if number == "2" else self._lines[self._row][: self._column]
                )
            elif line_break == "\r":
                self._column = 0
            elif line_break:
                self._down()
            for character in words:
                self._put(character)

    def _put(self, character: str) -> None:
        # Like real ones it wraps when the next character comes, not when a line is full.
        if self._column == self._width:
            self._down()
        line = self._lines[self._row].ljust(self._column)
        self._lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
        self._column += 1

    def _down(self) -> None:
        self._row, self._column = self._row + 1, 0
        if self._row == len(self._lines):
            self._lines.append("")
