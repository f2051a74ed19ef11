"""A settings experiment as one JSON object for programs: what the report says, without its pictures."""

from typing import Any

from loadframe.analyze.effects.settings import Response, Settings, SettingsAt


def settings_document(settings: Settings) -> dict[str, Any]:
    """Return the analysis for JSON."""
    description = settings.folder.description
    return {
        "experiment": description["experiment"],
        "question": description.get("question"),
        "scheme": description["scheme"],
        "results": [_result(each) for each in settings.results],
        "runs": [run.as_dict() for run in settings.folder.runs],
        "left_out": [run.id for run in settings.folder.left_out],
    }


def _result(result: SettingsAt) -> dict[str, Any]:
    levels = [dict(zip(result.factors, own, strict=True)) for own in result.combinations]
    return {
        "at": dict(result.at),
        "phase": result.phase,
        "objective": result.objective.as_dict(),
        "responses": [_response(each, result) for each in result.responses],
        "ranking": [
            {
                "levels": levels[each.combination],
                "runs": each.runs,
                "ratio": each.ratio.as_dict(),
                "ratio_measured": each.measured,
                "probability_better": each.better,
                "cpu_cost": result.costs.get(each.combination),
            }
            for each in result.standings
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
                "factors": [result.factors[index] for index in each.term],
                "levels": list(each.levels),
                "ratio": each.ratio.as_dict(),
            }
            for each in model.contrasts
        ],
        "block_share": model.block_share,
        "error_share": model.error_share,
    }
