"""Progress lines for sources of events."""

from dataclasses import replace

from loadframe.cli.console import EventWords
from loadframe.load import SourceProgress


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self):
        return self.now


def ads(accepted, indexed, dead=0, address="127.0.0.1:5000", spilled=0, visible=None, **kinds):
    # All these events are in a request: unacknowledged, but not waiting.
    waiting = 0
    return {
        "ads": SourceProgress(accepted + dead, accepted, indexed, dead, waiting, spilled, kinds, [], address, visible)
    }


def test_totals_are_shown_as_rates_of_the_last_second():
    clock = Clock()
    words = EventWords(clock)
    assert words.words(0, ads(0, 0)) == "ads: no events yet; now 0 unacknowledged, 0 dead letters"
    clock.now = 2.0
    said = "ads: 1,000 lines/s, 1,000 events/s accepted, 900/s indexed; now 200 unacknowledged, 1 dead letter"
    assert words.words(1, ads(2000, 1800, dead=1)) == said
    clock.now = 2.2
    assert words.words(1, ads(2400, 2200, dead=1)) == said, "the same second has the same words"
    clock.now = 3.0
    assert words.words(2, ads(2000, 1800, dead=1)).startswith("ads: 0 lines/s, 0 events/s accepted, 0/s indexed")
    dropping = {"ads": replace(ads(2000, 1800)["ads"], lines=3500, dropped=1500)}
    assert words.words(2, dropping).endswith("200 unacknowledged, 1,500 dropped, 0 dead letters")


def test_events_before_the_first_poll_are_shown_in_the_first_second():
    clock = Clock()
    words = EventWords(clock)
    words.words(0, ads(500, 0))
    clock.now = 1.0
    assert words.words(1, ads(600, 400)).startswith("ads: 600 lines/s, 600 events/s accepted, 400/s indexed; now ")


def test_visible_events_are_shown_if_probed():
    clock = Clock()
    words = EventWords(clock)
    words.words(0, ads(0, 0, visible=0))
    clock.now = 1.0
    said = words.words(1, ads(1000, 900, visible=600))
    assert said.startswith("ads: 1,000 lines/s, 1,000 events/s accepted, 900/s indexed, about 600/s visible; now ")


def test_addresses_of_listening_sources_are_shown_once_in_a_phase():
    words = EventWords(Clock())
    assert words.addresses(ads(0, 0)) == ["ads listens at 127.0.0.1:5000"]
    words.words(0, ads(0, 0))
    assert words.addresses(ads(0, 0)) == []
    words.begin()
    assert words.addresses(ads(0, 0)) == ["ads listens at 127.0.0.1:5000"]
    assert words.addresses(ads(0, 0, address=None)) == []


def test_events_are_shown_by_kind_and_spilled_ones_separately():
    clock = Clock()
    words = EventWords(clock)
    words.words(0, ads(0, 0))
    clock.now = 2.0
    told = words.words(1, ads(4000, 2200, spilled=1500, bid=2000, win=200, click=0))
    assert "1,100/s indexed (1,000 bid, 100 win); now 1,800 unacknowledged (1,500 on disk), 0 dead letters" in told
