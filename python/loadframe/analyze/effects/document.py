"""A settings experiment as one JSON object for programs: what the report says, without its pictures."""

from typing import Any

from loadframe.analyze.effects.settings import Response, Settings, SettingsAt
from loadframe.analyze.exclusion import excluded_document


def settings_document(settings: Settings) -> dict[str, Any]:
    """Return the analysis for JSON."""
    description = settings.folder.description
    return {
        "experiment": description["experiment"],
        "question": description.get("question"),
        "scheme": description["scheme"],
        "results": [_result(result) for result in settings.results],
        "runs": [run.as_dict() for run in settings.folder.runs],
        **excluded_document(settings.folder),
    }


def _result(result: SettingsAt) -> dict[str, Any]:
    levels = [dict(zip(result.factors, combination, strict=True)) for combination in result.combinations]
    return {
        "at": dict(result.at),
        "phase": result.phase,
        "objective": result.objective.as_dict(),
        "responses": [_response(response, result) for response in result.responses],
        "ranking": [
            {
                "levels": levels[standing.combination],
                "runs": standing.runs,
                "failed_runs": result.failed.get(standing.combination, (0, 0))[0],
                "ratio": standing.ratio.as_dict(),
                "ratio_measured": standing.measured,
                "probability_better": standing.better,
                "cpu_cost": result.costs.get(standing.combination),
            }
            for standing in result.standings
        ],
        "failed": [
            {"levels": levels[number], "failed": failed, "runs": total}
            for number, (failed, total) in result.failed.items()
        ],
        "winner": result.winner and dict(zip(result.factors, result.winner, strict=True)),
        "confirmation": result.confirmation and result.confirmation.as_dict(),
        "course": [{"levels": levels[number], "value": value} for number, value in result.course],
        "warnings": [warning.as_dict() for warning in result.warnings],
    }


def _response(response: Response, result: SettingsAt) -> dict[str, Any]:
    model = response.model
    return {
        **response.measure.as_dict(),
        "terms": [
            {
                "factors": [result.factors[index] for index in fit.term],
                "share": fit.share,
                "p": response.adjusted.get(fit.term),
                "claimed": response.claimed(fit.term),
                "aliases": [
                    {"factors": [result.factors[index] for index in alias.term], "part": alias.part}
                    for alias in model.aliases.get(fit.term, ())
                ],
            }
            for fit in model.terms
        ],
        "effects": [
            {
                "factors": [result.factors[index] for index in contrast.term],
                "levels": list(contrast.levels),
                "ratio": contrast.ratio.as_dict(),
            }
            for contrast in model.contrasts
        ],
        "block_share": model.block_share,
        "error_share": model.error_share,
    }
