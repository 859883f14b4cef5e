"""Run the cells of a notebook and store their outputs in it: python examples/run_notebook.py FILE.

In this process and without a Jupyter kernel: a cell shows what it prints and its last expression.
"""

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def run_notebook(path: Path) -> dict[str, Any]:
    """Return the notebook with the outputs of its cells made again."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(code, start=1):
        cell["execution_count"] = count
        cell["outputs"] = list(_outputs("".join(cell["source"]), names, count))
    return notebook


def _outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "cell", "exec"), names)
        shown = eval(ast.unparse(last), names) if last else None
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(text)})
    if shown is not None:
        result = {"output_type": "execute_result", "execution_count": count, "metadata": {}}
        outputs.append(result | {"data": {kind: _lines(t) for kind, t in _shown(shown).items()}})
    return outputs


def _shown(value: Any) -> dict[str, str]:
    """Return an object's representations by MIME type, as Jupyter asks for them."""
    if hasattr(value, "_repr_mimebundle_"):
        bundle = value._repr_mimebundle_()
        found: dict[str, str] = bundle[0] if isinstance(bundle, tuple) else bundle
        return found
    html = {"text/html": value._repr_html_()} if hasattr(value, "_repr_html_") else {}
    return html | {"text/plain": repr(value)}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    text = json.dumps(run_notebook(target), indent=1, ensure_ascii=False)
    target.write_text(text + "\n", encoding="utf-8")
