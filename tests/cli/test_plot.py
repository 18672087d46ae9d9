"""`--plot` draws the roofline beside the answer, whatever part of the answer is shown."""

from pathlib import Path

import pytest
from tests.questions.launched import calls
from tests.store.conftest import write_directory

from stepscope.cli.main import main

MM = ("aten::mm", [[1024, 1024]] * 2, ["c10::BFloat16"] * 2)


@pytest.fixture
def recording(tmp_path: Path) -> str:
    small = ("aten::mm", [[512, 512]] * 2, ["c10::BFloat16"] * 2)
    return str(write_directory(tmp_path / "store", calls([(*MM, 4000, {}), (*small, 3000, {})])))


def test_all_rows_are_drawn_where_one_column_of_one_is_shown(recording, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    target = tmp_path / "roof.svg"
    code = main(["roofline", recording, "--csv", "--top", "1", "--columns", "bound", "--plot", str(target)])
    told = capsys.readouterr()
    assert (code, told.out) == (0, "bound\ncompute\n")
    assert "roof.svg: drawn" in told.err
    points = target.read_text().partition("PathCollection_1")[2].partition("PathCollection_2")[0]
    assert points.count("fill-opacity") == 2


@pytest.mark.parametrize(
    ("question", "name", "why"), [("kernels", "a.svg", "--plot"), ("roofline", "a.pdf", "bad-chart")]
)
def test_what_draws_nothing_is_a_wrong_call(recording, tmp_path, capsys, question, name, why):
    assert main([question, recording, "--plot", str(tmp_path / name)]) == 2
    assert why in capsys.readouterr().err
