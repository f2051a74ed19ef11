"""Write all generated pages and schemas of docs/reference: `python -m docs.generate`."""

from pathlib import Path

from docs.generate import command_line, keys, library, run_folder, validity_rules

#: The pages that are generated as a whole, and the functions that return their text.
PAGES = {
    "command-line.md": command_line.page,
    "library.md": library.page,
    "run-folder.md": run_folder.page,
    "validity-rules.md": validity_rules.page,
}
REFERENCE = Path(__file__).parents[1] / "reference"

if __name__ == "__main__":
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page())
    keys.write(REFERENCE)
