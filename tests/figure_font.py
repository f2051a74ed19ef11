"""Write the font of exported SVG files: a part of Liberation Sans, which vl-convert uses for PDF and PNG.

    uv run --no-project --with fonttools --with brotli python tests/figure_font.py LiberationSans-Regular.ttf

It has the letters of Latin, Greek and Cyrillic, and signs of reports. Its licence, SIL OFL 1.1, requires another name.
"""

import sys
from pathlib import Path

FONT = Path(__file__).parents[1] / "python" / "loadframe" / "report" / "templates" / "sans.woff2"
RANGES = (
    range(0x20, 0x7F), range(0xA0, 0x180), range(0x391, 0x3CA), range(0x400, 0x460), range(0x2010, 0x2040),
    map(ord, "←→−∞≈≤≥€"),
)  # fmt: skip
NAMES = {1: "Loadframe Sans", 3: "Loadframe Sans", 4: "Loadframe Sans", 6: "LoadframeSans"}


def main() -> None:
    """Write the font from the file that the argument names."""
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont

    font = TTFont(sys.argv[1], recalcTimestamp=False)
    # 0 is the copyright, 13 and 14 are the licence.
    options = Options(
        hinting=False, layout_features=["kern"], name_IDs=[0, 1, 2, 3, 4, 5, 6, 13, 14], drop_tables=["FFTM"]
    )
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=[sign for part in RANGES for sign in part])
    subsetter.subset(font)
    for record in font["name"].names:
        record.string = NAMES.get(record.nameID, record.toUnicode())
    font.flavor = "woff2"
    font.save(FONT)


if __name__ == "__main__":
    main()
