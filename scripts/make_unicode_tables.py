#!/usr/bin/env python3
"""Writes src/eadem/text/pretokenizer_unicode_data.cpp: the Unicode classes that pre-tokenizers need.

The classes are asked of Hugging Face tokenizers itself, code point by code point, so that ids agree with it; they are
stored so that ids depend on no library's Unicode version. Needs: pip install tokenizers==0.23.3
"""
import pathlib

import tokenizers
from tokenizers import Regex, pre_tokenizers

CLASSES = [("letter", r"\p{L}"), ("number", r"\p{N}"), ("punctuation", r"\p{P}"), ("space", r"\s")]


def members(pattern):
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    found = set()
    for start in range(0, 0x110000, 0x1000):
        points = [c for c in range(start, start + 0x1000) if not 0xD800 <= c < 0xE000]
        if not points:
            continue
        # A combining-free separator of no class keeps matches apart; behaviour "removed" would lose offsets.
        text = "".join(chr(c) + "\x00" for c in points)
        for piece, (begin, end) in split.pre_tokenize_str(text):
            if end - begin == 1 and begin % 2 == 0:
                found.add(points[begin // 2])
    return found


def main():
    class_of = {}
    for name, pattern in CLASSES:
        for point in members(pattern):
            assert point not in class_of, (hex(point), name, class_of[point])
            class_of[point] = name
    ranges, previous = [], None
    for point in sorted(class_of):
        if previous is not None and point == previous + 1 and ranges[-1][2] == class_of[point]:
            ranges[-1][1] = point
        else:
            ranges.append([point, point, class_of[point]])
        previous = point
    entries = [f"{{0x{a:x}, 0x{b:x}, {c[0].upper()}}}" for a, b, c in ranges]
    lines, line = [], "   "
    for entry in entries:
        if len(line) + len(entry) + 2 > 118:
            lines.append(line)
            line = "   "
        line += " " + entry + ","
    lines.append(line)
    path = pathlib.Path(__file__).parent.parent / "src/eadem/text/pretokenizer_unicode_data.cpp"
    path.write_text(
        f"""// Written by scripts/make_unicode_tables.py from tokenizers {tokenizers.__version__}; do not edit.
#include "eadem/text/pretokenizer_unicode.h"

namespace eadem::text::detail {{

namespace {{
constexpr CharacterClass L = CharacterClass::letter, N = CharacterClass::number, P = CharacterClass::punctuation,
                         S = CharacterClass::space;
// clang-format off
constexpr ClassRange kRanges[] = {{
"""
        + "\n".join(lines)
        + """
};
// clang-format on
}  // namespace

std::span<const ClassRange> class_ranges() { return kRanges; }

}  // namespace eadem::text::detail
"""
    )
    print(len(ranges), "ranges")


main()
