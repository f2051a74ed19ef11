"""Scalability: models of throughput over size, with intervals, model selection and warnings."""

from loadframe.analyze.scalability.analysis import fit
from loadframe.analyze.scalability.intervals import Peak, PeakStanding
from loadframe.analyze.scalability.models import ModelName, Scaling
from loadframe.analyze.scalability.observations import Residuals
from loadframe.analyze.scalability.result import ModelFit, Robust, ScalabilityFit

__all__ = ["ModelFit", "ModelName", "Peak", "PeakStanding", "Residuals", "Robust", "ScalabilityFit", "Scaling", "fit"]
