import io

from runnel.ui.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Watch:
    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def now_ms(self):
        return int(self.now * 1000)


def test_a_line_is_drawn_over_itself_and_given_back():
    screen, watch = Terminal(), Watch()
    progress = Progress(total=200, stream=screen, clock=watch)
    progress.at(10, 1, 10)
    assert screen.getvalue() == "", "nothing is drawn for what is over at once"
    watch.now = 2.0
    progress.at(100, 1234, 4_000_000)
    assert screen.getvalue() == f"\r\x1b[K[{'#' * 12}{'.' * 12}]  50%  1,234 records, 4.0 MB, 2.0 MB/s"
    progress.at(150, 2000, 6_000_000)
    watch.now = 4.0
    progress.at(400, 2000, 6_000_000)
    assert screen.getvalue().count("\r") == 2, "not more often than one can read"
    assert "100%" in screen.getvalue()
    progress.clear()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_without_a_total_there_is_no_share():
    screen, watch = Terminal(), Watch()
    progress = Progress(stream=screen, clock=watch)
    watch.now = 1.0
    progress.at(5, 5, 1_000_000)
    assert screen.getvalue() == "\r\x1b[K5 records, 1.0 MB, 1.0 MB/s"


def test_what_is_no_terminal_or_shall_be_quiet_is_left_alone():
    plain, screen, watch = io.StringIO(), Terminal(), Watch()
    for progress in (Progress(stream=plain, clock=watch), Progress(quiet=True, stream=screen, clock=watch)):
        watch.now += 5
        progress.at(5, 5, 5)
        progress.clear()
    assert plain.getvalue() == screen.getvalue() == ""
    assert Progress(stream=plain, clock=watch).seconds() > 0
