"""Agreement of metrics with human judgements: statistics, confidence intervals and tests, with NumPy and SciPy only.

:func:`evaluate` evaluates several metrics on a judgement set; the other functions are its building blocks.
"""

from textmover.meta_evaluation.agreement.annotators import (
    AnnotatorAgreement,
    annotator_agreement,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
)
from textmover.meta_evaluation.agreement.breakdown import (
    BinAgreement,
    IntervalOptions,
    MetricCorrelations,
    agreement_by_length,
    agreement_by_quantile,
    metric_correlations,
)
from textmover.meta_evaluation.agreement.preferences import (
    PreferenceAgreement,
    darr_tau,
    grouped_darr_tau,
    preferences_from_ratings,
)
from textmover.meta_evaluation.agreement.systems import (
    SoftPairwiseAccuracy,
    SystemAgreement,
    soft_pairwise_accuracy,
    system_agreement,
    system_means,
)
from textmover.meta_evaluation.error_spans.agreement import (
    KindAgreement,
    Reliability,
    SpanAgreement,
    compare_errors,
    judge_errors,
)
from textmover.meta_evaluation.error_spans.span_statistics import SpanF1, span_f1, word_errors
from textmover.meta_evaluation.evaluation import evaluate
from textmover.meta_evaluation.results import (
    LEVELS,
    STATISTICS,
    Evaluation,
    Exclusion,
    MetricAgreement,
    MetricScores,
    Protocol,
    human_scores,
)
from textmover.meta_evaluation.significance.bootstrap import Gain, Interval, bootstrap_gain, bootstrap_interval
from textmover.meta_evaluation.significance.significance_tests import (
    PermutationTest,
    WilliamsTest,
    permutation_p_values,
    permutation_test,
    significance_clusters,
    williams_test,
    williams_test_of_scores,
)
from textmover.meta_evaluation.statistics.correlation import (
    AveragedCorrelation,
    Correlation,
    MeanCorrelation,
    averaged_correlation,
    correlations,
    grouped_correlations,
    mean_correlation,
)
from textmover.meta_evaluation.statistics.ties import (
    PairCounts,
    TieAgreement,
    TieCalibration,
    calibrate_ties,
    pair_counts,
    tie_agreement,
)
from textmover.meta_evaluation.systems.paired_tests import SystemComparison, paired_bootstrap, paired_randomisation
from textmover.meta_evaluation.systems.ranking import (
    RankedSystems,
    SystemMean,
    mean_over_groups,
    rank_systems,
    ranking_agreement,
)
from textmover.meta_evaluation.systems.system_comparison import ComparedSystems, Decision, SystemPair, compare_systems

__all__ = [
    "LEVELS", "STATISTICS", "AnnotatorAgreement", "AveragedCorrelation", "BinAgreement", "ComparedSystems",
    "Correlation", "Decision", "Evaluation", "Exclusion", "Gain", "Interval", "IntervalOptions", "KindAgreement",
    "MeanCorrelation", "MetricAgreement", "MetricCorrelations", "MetricScores", "PairCounts", "PermutationTest",
    "PreferenceAgreement", "Protocol", "RankedSystems", "Reliability", "SoftPairwiseAccuracy", "SpanAgreement",
    "SpanF1", "SystemAgreement", "SystemComparison", "SystemMean", "SystemPair", "TieAgreement", "TieCalibration",
    "WilliamsTest", "agreement_by_length", "agreement_by_quantile", "annotator_agreement", "averaged_correlation",
    "bootstrap_gain", "bootstrap_interval", "calibrate_ties", "cohen_kappa", "compare_errors", "compare_systems",
    "correlations", "darr_tau", "evaluate", "fleiss_kappa", "grouped_correlations", "grouped_darr_tau",
    "human_scores", "judge_errors", "krippendorff_alpha", "mean_correlation", "mean_over_groups",
    "metric_correlations", "pair_counts", "paired_bootstrap", "paired_randomisation", "permutation_p_values",
    "permutation_test", "preferences_from_ratings", "rank_systems", "ranking_agreement", "significance_clusters",
    "soft_pairwise_accuracy", "span_f1", "system_agreement", "system_means", "tie_agreement", "williams_test",
    "williams_test_of_scores", "word_errors",
]  # fmt: skip
