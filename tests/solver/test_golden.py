"""Solutions computed by other programs: 260 fits on real data, and the worked numbers."""

import json

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from openset.kernels import RBF
from openset.solver import kernel_rows, one_class_problem, solve, svdd_problem, svm_problem

from .reference_solver import solve_reference


def gram(X, Z, gamma):
    return np.exp(-gamma * cdist(X, Z, "sqeuclidean"))


# --- the 260 fits ---------------------------------------------------------------------------------

PROBLEMS = [
    "fourier_2",
    "vowel_0",
    "optdigits_3",
    "zernike_1",
    "yeast_6",
    "led7_3",
    "letter_1",
    "pendigits_8",
    "vowel_9_majority",
    "yeast_1_majority",
]

# tol: allowed error of the objective, of rho and of the decision values (the golden README).
TOLERANCES = {1e-6: (1e-7, 1e-4, 3e-5), 1e-3: (1e-4, 3e-2, 1e-2)}


@pytest.fixture(scope="module")
def golden(golden_dir):
    problems = json.loads((golden_dir / "ossvm_binary.json").read_text())["problems"]
    assert sorted(p["id"] for p in problems) == sorted(PROBLEMS)
    assert sum(len(p["fits"]) for p in problems) == 260
    return {p["id"]: p for p in problems}


def _load(problem, data_home):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.read_parquet(data_home / f"{problem['dataset']}.parquet")
    X = frame.drop(columns="target").to_numpy(dtype=np.float64)
    train, test = X[problem["train_rows"]], X[problem["test_rows"]]
    low, high = train.min(axis=0), train.max(axis=0)
    varies = high > low
    width = np.where(varies, high - low, 1.0)
    train, test = ((np.where(varies, (A - low) / width, 0.0)) for A in (train, test))
    sums = problem["scaled_checksums"]
    assert train.sum() == pytest.approx(sums["sum_train"], rel=1e-12)
    assert (train**2).sum() == pytest.approx(sums["sum_sq_train"], rel=1e-12)
    assert test.sum() == pytest.approx(sums["sum_test"], rel=1e-12)
    positive = frame["target"].to_numpy()[problem["train_rows"]] == problem["positive_class"]
    return train, test, np.where(positive, 1.0, -1.0)


@pytest.mark.parametrize("name", PROBLEMS)
def test_golden_fits(name, golden, data_home):
    problem = golden[name]
    train, test, signs = _load(problem, data_home)
    for gamma in sorted({fit["gamma"] for fit in problem["fits"]}):
        rows = kernel_rows(train, RBF(), gamma, 1000)
        K, K_test = gram(train, train, gamma), gram(test, train, gamma)
        for fit in (f for f in problem["fits"] if f["gamma"] == gamma):
            machine = svm_problem(signs, np.full(len(signs), fit["C"]), fit["lambda_fraction"])
            for tol, allowed in TOLERANCES.items():
                solution = solve(machine, rows, tol=tol)
                assert solution.kkt_gap <= tol
                total = fit["lambda_absolute"]
                assert solution.beta.sum() == pytest.approx(total, rel=1e-10, abs=1e-9)
                _compare(fit, solution, signs, K, K_test, *allowed)
                if tol == 1e-6 and fit["tight"]["counts_comparable"]:
                    assert np.sum(np.abs(solution.beta) > 0) == fit["tight"]["n_sv"]
                    assert np.sum(np.abs(solution.beta) >= fit["C"]) == fit["tight"]["n_bsv"]


def _compare(fit, solution, signs, K, K_test, objective_error, rho_error, value_error):
    tight = fit["tight"]
    where = f"gamma={fit['gamma']}, C={fit['C']}, v={fit['lambda_fraction']}"
    beta = solution.beta
    # In double precision, like the golden figure; the solver's own uses its float32 kernel.
    objective = 0.5 * beta @ K @ beta - signs @ beta
    scale = max(1.0, abs(tight["obj"]))
    assert abs(objective - tight["obj"]) <= objective_error * scale, where
    assert abs(solution.objective - objective) <= 1e-6 * scale, where

    rho, values = -solution.bias, K_test @ beta + solution.bias
    expected = np.array(tight["decision_values"])
    scale = max(1.0, abs(tight["rho"]))
    if tight["rho_is_unique"]:
        assert abs(rho - tight["rho"]) <= rho_error * scale, where
    else:
        # Every rho of an interval is optimal; only the values without it are unique.
        low, high = tight["rho_bound_interval"]
        slack = 1e-6 * scale + solution.kkt_gap
        assert low - slack <= rho <= high + slack, where
        values, expected = values + rho, expected + tight["rho"]
    assert np.abs(values - expected).max() <= value_error * scale, where


# --- worked numbers, by both solvers --------------------------------------------------------------


@pytest.fixture(params=["compiled", "reference"])
def solve_points(request):
    """Solve a problem over points on a line, at a tight tolerance."""

    def solve_points(problem, x, gamma):
        X = np.array(x, dtype=np.float64)[:, None]
        if request.param == "reference":
            return solve_reference(problem, gram(X, X, gamma), tol=1e-10)
        return solve(problem, kernel_rows(X, RBF(), gamma, 1), tol=1e-10)

    return solve_points


# The printed numbers have six digits; kernel values in float32 cost about one more unit.
PRINTED = {"rel": 0, "abs": 2e-6}

LINE_A = ([0, 0.5, 1, 2, 3, -3], [1, 1, 1, -1, -1, -1])
LINE_B = ([-2, -1.5, 1.5, 2, 0, 0.3], [1, 1, 1, 1, -1, -1])


@pytest.mark.parametrize(
    ("line", "v", "alpha", "objective", "bias"),
    [
        (LINE_A, 0, [0.969487, 0, 1, 0.935191, 0.354287, 0.680009], -2.126479, -0.320110),
        (LINE_A, 0.1, [1, 0, 1, 0.855695, 0.273914, 0.570391], -2.015186, -0.429733),
        (LINE_A, 0.25, [1, 0.098541, 1, 0.760974, 0.163063, 0.424504], -1.787152, -0.575620),
        (LINE_A, 0.5, [1, 0.311188, 1, 0.615029, 0, 0.196160], -1.270719, -0.803965),
        (LINE_A, 0.95, [1, 0.888108, 1, 0.038108, 0, 0], 0.201792, -1.441693),
        (LINE_B, 0, [0.167272, 0.575532, 0.903608, 0, 0.646412, 1], -1.670451, 0.401380),
        (LINE_B, 0.25, [0.411468, 0.696578, 1, 0.225698, 0.333744, 1], -1.897362, 0.057187),
        (LINE_B, 0.5, [0.651246, 0.812950, 1, 0.556107, 0.020303, 1], -1.786474, -0.278963),
        (LINE_B, 0.95, [1, 1, 1, 1, 0, 0.2], -0.689607, -1.136710),
    ],
)
def test_six_points(solve_points, line, v, alpha, objective, bias):
    x, signs = line
    solution = solve_points(svm_problem(signs, np.ones(6), v), x, 1.0)
    assert np.abs(solution.beta) == pytest.approx(np.array(alpha), **PRINTED)
    assert solution.objective == pytest.approx(objective, **PRINTED)
    assert solution.bias == pytest.approx(bias, **PRINTED)
    assert np.all(solution.beta * signs >= 0)


def test_no_free_multipliers(solve_points):
    x, signs, boxes = [0, 10, 20, 30], np.array([1, 1, -1, -1]), np.full(4, 0.1)
    solution = solve_points(svm_problem(signs, boxes, 0.0), x, 1.0)
    assert np.abs(solution.beta) == pytest.approx(boxes)
    assert solution.bias_interval == pytest.approx((-0.9, 0.9))
    assert solution.bias == pytest.approx(0.0, abs=1e-7)
    assert solution.objective == pytest.approx(-0.38)

    solution = solve_points(svm_problem(signs, boxes, 0.5), x, 1.0)
    assert np.abs(solution.beta) == pytest.approx(np.array([0.1, 0.1, 0.05, 0.05]))
    assert solution.bias == pytest.approx(-0.95)
    values = signs - solution.v + solution.bias
    assert values[:2] == pytest.approx(np.array([-0.85, -0.85]))


@pytest.mark.parametrize(
    ("v", "alpha", "bias", "objective"),
    [
        (0.2, [3.541494, 1.541494], -1.606531, -0.934963),
        (0.5, [5.041494, 0.041494], -4.016327, None),
    ],
)
def test_two_points(solve_points, v, alpha, bias, objective):
    solution = solve_points(svm_problem([1, -1], np.full(2, 10.0), v), [0, 1], 0.5)
    assert np.abs(solution.beta) == pytest.approx(np.array(alpha), **PRINTED)
    assert solution.bias == pytest.approx(bias, **PRINTED)
    # The closed form: alpha = 1 / (1 - k) +- lambda / 2 and b = -lambda (1 + k) / 2.
    k, lam = np.exp(-0.5), 10 * v
    assert np.abs(solution.beta) == pytest.approx(
        1 / (1 - k) + np.array([lam, -lam]) / 2, **PRINTED
    )
    assert solution.bias == pytest.approx(-lam * (1 + k) / 2, **PRINTED)
    if objective is not None:
        assert solution.objective == pytest.approx(objective, **PRINTED)


def test_one_class(solve_points):
    x, gamma = [0, 1, 3], 0.5
    solution = solve_points(one_class_problem(np.full(3, True), 0.5), x, gamma)
    assert solution.beta == pytest.approx(np.array([0.521156, 0.309984, 0.668860]), **PRINTED)
    assert solution.bias == pytest.approx(-0.716601, **PRINTED)
    points = np.array([[0.5], [2.0], [6.0]])
    values = gram(points, np.array(x, dtype=float)[:, None], gamma) @ solution.beta + solution.bias
    assert values == pytest.approx(np.array([0.046265, -0.052372, -0.709170]), **PRINTED)


@pytest.mark.parametrize("C", [2 / 3, 1.0])
def test_svdd(solve_points, C):
    x, gamma = [0, 1, 3], 0.5
    solution = solve_points(svdd_problem(np.full(3, True), C, np.ones(3)), x, gamma)
    beta = solution.beta
    assert beta == pytest.approx(np.array([0.347438, 0.206656, 0.445907]), **PRINTED)
    # v = K_ii / 2 - (K beta)_i is half the squared distance to the centre, up to a constant.
    X = np.array(x, dtype=float)[:, None]
    centre = beta @ gram(X, X, gamma) @ beta
    radius = 2 * solution.bias + centre
    assert radius == pytest.approx(0.522266, **PRINTED)
    distance = 1 - 2 * gram(np.array([[0.5], [2.0], [6.0]]), X, gamma) @ beta + centre
    expected = np.array([0.061686, -0.069829, -0.945560])
    assert radius - distance == pytest.approx(expected, **PRINTED)


# --- BOAT, the figure of the paper ----------------------------------------------------------------


@pytest.fixture(scope="module")
def boat(data_home):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.read_parquet(data_home / "boat.parquet")
    X = frame.drop(columns="target").to_numpy(dtype=np.float64)
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    return kernel_rows(X, RBF(), 16.0, 1), frame["target"].to_numpy()


def test_boat_biases(boat):
    rows, y = boat
    problems = [svm_problem(np.where(y == c, 1, -1), np.ones(len(y)), 0.0) for c in np.unique(y)]
    biases = [solve(problem, rows, tol=1e-8).bias for problem in problems]
    assert np.round(biases, 3).tolist() == [-0.832, -0.860, 0.594]


def test_boat_is_first_bounded_at_fraction_0_15(boat):
    rows, y = boat
    signs = np.where(y == y.max(), 1, -1)
    biases = [
        solve(svm_problem(signs, np.ones(len(y)), v), rows, tol=1e-8).bias
        for v in (0, 0.05, 0.10, 0.15, 0.20)
    ]
    assert np.round(biases, 4).tolist() == [0.5942, 0.3674, 0.1374, -0.0925, -0.3370]
