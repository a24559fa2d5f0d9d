"""The image's instructions and its command, run in an empty root directory."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import urllib.request
from pathlib import Path

import pytest
from tests.packaging.recipe import Stage, build, can_change_root

pytestmark = [
    pytest.mark.packaging,
    pytest.mark.skipif(not can_change_root(), reason="only root may change the root directory"),
]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Return the last stage of the Dockerfile, with a report in the directory that it serves."""
    folder = tmp_path_factory.mktemp("image")
    for parent in (folder, *folder.parents[:3]):
        parent.chmod(0o755)  # the image's user is not root
    stage = build(folder, ROOT)
    shutil.copy(ROOT / "webapp/demo/profile.pop", stage.inside("/reports"))
    return stage


def test_the_user_is_not_root_and_cannot_change_the_programs(image: Stage) -> None:
    assert image.run("id -u; id -un").split() == ["10001", "tilescope"]
    script = "find /opt/tilescope /opt/kernels -writable ! -type l | head -3; pwd; echo $HOME"
    assert image.run(script).split() == ["/home/tilescope", "/home/tilescope"]


def test_it_holds_neither_tests_nor_history(image: Stage) -> None:
    assert image.run("ls /").split().count("source") == 0
    assert image.run("tilescope --version").startswith("tilescope ")
    assert "mnist" in image.run("tilescope summary /reports")


def test_its_command_serves_the_reports_and_ends_on_a_signal(image: Stage) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    server = image.start(*(port if word == "8050" else word for word in image.command))
    try:
        assert server.stdout is not None
        lines = iter(server.stdout.readline, "")
        link = next(filter(None, (re.search(r"http://\S+", line) for line in lines)))[0]
        address = re.sub(r"//[^:/]+:", "//127.0.0.1:", link)
        assert f":{port}/" in address
        # The link's token becomes a cookie.
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(address, timeout=60) as answer:
            assert answer.status == 200
            assert b"TileScope" in answer.read()
    finally:
        server.send_signal(signal.SIGTERM)
        text = server.communicate(timeout=60)[0]
    assert "Traceback" not in text
    assert server.returncode in {0, -signal.SIGTERM, 128 + signal.SIGTERM}
