"""Measuring: losses over windows or the whole stream, bits per byte, baselines, token scores."""

from budgerigar.evaluation.baselines import baselines
from budgerigar.evaluation.evaluate import Evaluation, evaluate
from budgerigar.evaluation.scoring import TokenScores, score_ids

__all__ = ["Evaluation", "TokenScores", "baselines", "evaluate", "score_ids"]
