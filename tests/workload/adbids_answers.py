"""Answers to the five questions of the workload adbids, calculated by DuckDB from its log.

Shares no code with loadframe: each question is written in SQL and runs on the events of the log.
"""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import duckdb

#: Decimal amounts make sums exact in any order.
_DOCUMENTS = """
CREATE TABLE documents AS
WITH lines AS (SELECT json AS line, json ->> 'type' AS type FROM read_ndjson_objects(?)),
bids AS (SELECT line, line ->> 'id' AS id FROM lines WHERE type = 'bid'),
wins AS (
    SELECT line ->> 'bid_id' AS id, CAST(line ->> 'win_price' AS DECIMAL(18, 6)) AS price FROM lines WHERE type = 'win'
),
clicks AS (SELECT line ->> 'bid_id' AS id FROM lines WHERE type = 'click')
SELECT
    line ->> 'ad_url' AS ad,
    CAST(line ->> 'campaign_id' AS INTEGER) AS campaign,
    line ->> 'publisher' AS publisher,
    CAST(substr(line ->> 'time', 1, 10) AS DATE) AS day,
    line ->> '$.targeting.geo.country' AS country,
    line ->> '$.targeting.geo.region' AS region,
    line ->> '$.targeting.geo.zip' AS zip,
    line ->> '$.targeting.device.type' AS device,
    wins.id IS NOT NULL AS won,
    clicks.id IS NOT NULL AS clicked,
    price
FROM bids LEFT JOIN wins USING (id) LEFT JOIN clicks USING (id)
"""


class Answers:
    """The log at `path` as tables for the questions. Amounts are returned as floats."""

    def __init__(self, path: Path) -> None:
        self._tables = duckdb.connect()
        self._tables.execute(_DOCUMENTS, [str(path)])

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._tables.execute(sql, list(values)).fetchall()

    def asked_for(self) -> Mapping[str, Any]:
        """Return parameters of the workload that have answers: an ad, a campaign, an ad of a region that won most."""
        most = "SELECT {0} FROM documents WHERE won AND {1} GROUP BY ALL ORDER BY count(*) DESC, {0} LIMIT 1"
        ((ad,),) = self._rows(most.format("ad", "true"))
        ((campaign,),) = self._rows(most.format("campaign", "day = (SELECT min(day) FROM documents)"))
        ((region, regional),) = self._rows(most.format("region, ad", "region <> ''"))
        number = {"ad": ad, "regional_ad": regional}
        return {
            **{name: int(url.rpartition("/")[2]) for name, url in number.items()},
            "campaign": campaign,
            "region": region,
        }

    def documents(self) -> int:
        """Return how many bids there are."""
        ((count,),) = self._rows("SELECT count(*) FROM documents")
        return int(count)

    def ad_spend(self, ad: int) -> tuple[float, dict[str, tuple[int, float]]]:
        """Return the total cost of an ad, and its bids and their cost by country."""
        rows = self._rows(
            "SELECT country, count(*), coalesce(sum(price), 0) FROM documents WHERE ad = ? GROUP BY ALL", _url(ad)
        )
        return float(sum(row[2] for row in rows)), {row[0]: (row[1], float(row[2])) for row in rows}

    def campaign_ads(self, campaign: int, day: date) -> list[tuple[str, int, int, float]]:
        """Return the campaign's best ads of a day's bids, with clicks, wins and cost."""
        rows = self._rows(
            """SELECT ad, count(*) FILTER (clicked) AS clicks, count(*) FILTER (won) AS wins, coalesce(sum(price), 0)
            FROM documents WHERE campaign = ? AND day = ? GROUP BY ad ORDER BY clicks DESC, wins DESC, ad LIMIT 100""",
            campaign,
            day,
        )
        return [(ad, clicks, wins, float(spend)) for ad, clicks, wins, spend in rows]

    def campaign_totals(self, campaign: int, day: date) -> tuple[int, int, float]:
        """Return the campaign's clicks, wins and cost of a day's bids."""
        ((clicks, wins, spend),) = self._rows(
            """SELECT count(*) FILTER (clicked), count(*) FILTER (won), coalesce(sum(price), 0)
            FROM documents WHERE campaign = ? AND day = ?""",
            campaign,
            day,
        )
        return clicks, wins, float(spend)

    def region_spend(self, region: str, ad: int) -> dict[tuple[str, str], tuple[int, float]]:
        """Return by day and publisher an ad's bids in a region, and their cost."""
        rows = self._rows(
            """SELECT day, publisher, count(*), coalesce(sum(price), 0)
            FROM documents WHERE region = ? AND ad = ? GROUP BY ALL""",
            region,
            _url(ad),
        )
        return {(row[0].isoformat(), row[1]): (row[2], float(row[3])) for row in rows}

    def top_ads(self) -> list[tuple[str, int, dict[str, int], dict[str, int]]]:
        """Return the hundred ads that won most often, each with its wins by device and by zip."""
        best = self._rows("SELECT ad, count(*) AS n FROM documents WHERE won GROUP BY ad ORDER BY n DESC, ad LIMIT 100")
        by = "SELECT {}, count(*) FROM documents WHERE won AND ad = ? GROUP BY ALL"
        return [
            (ad, wins, dict(self._rows(by.format("device"), ad)), dict(self._rows(by.format("zip"), ad)))
            for ad, wins in best
        ]

    def top_publishers(self) -> list[tuple[str, int, int]]:
        """Return the hundred publishers that won most often, with wins and clicks."""
        return self._rows(
            """SELECT publisher, count(*) AS wins, count(*) FILTER (clicked) FROM documents WHERE won
            GROUP BY ALL ORDER BY wins DESC, publisher LIMIT 100"""
        )


def _url(ad: int) -> str:
    return f"https://ad.zemanta.com/{ad}"
