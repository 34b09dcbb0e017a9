"""README's Python, run as it stands but for the address: what newcomers copy must work."""

import contextlib
import io
import pathlib
import re

from harness import KEY, URL, line, text

README = pathlib.Path(__file__).resolve().parents[3] / "README.md"
ADDRESS = "http://127.0.0.1:8080/v1"

snippets = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
assert snippets, "README has no Python any more"
pathlib.Path("requests.jsonl").write_bytes(text([line(n) for n in range(3)]))
for snippet in snippets:
    assert ADDRESS in snippet, snippet
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(snippet.replace(ADDRESS, URL), {"KEY": KEY})  # noqa: S102
    # It ends with the output in hand: a line for each request.
    assert said.getvalue().count('"custom_id"') == 3, said.getvalue()
