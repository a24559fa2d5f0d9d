"""The search for reference cycles is off inside, for all threads, and as before outside."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from tilescope.collection import without_collection


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_it_is_off_inside_and_on_again_after_an_error() -> None:
    def fail() -> None:
        with without_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"), without_collection():
        fail()
    assert gc.isenabled()


def test_where_it_was_off_it_stays_off() -> None:
    gc.disable()
    with without_collection():
        pass
    assert not gc.isenabled()


def test_a_thread_that_ends_first_leaves_it_off_for_the_others() -> None:
    is_inside, may_end = threading.Event(), threading.Event()

    def stay() -> None:
        with without_collection():
            is_inside.set()
            may_end.wait(30)

    thread = threading.Thread(target=stay)
    with without_collection():
        thread.start()
        assert is_inside.wait(30)
    assert not gc.isenabled()
    may_end.set()
    thread.join()
    assert gc.isenabled()
