"""The open-set support vector machine of the paper, one-vs-rest."""

from __future__ import annotations

from functools import partial
from numbers import Real

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.utils._param_validation import Interval

from ..base._classifier import FRACTIONS, Traits
from ..base._machines import Machine
from ..base._one_vs_rest import BOXES, PAPER_GAMMAS, SCALED_GAMMAS, OneVsRestSVM
from ..solver import lower_bias, one_class_problem, svm_problem
from ._trained import Trained
from ._warm_start import Present, train_from

# Decision values of training samples that a model remembers for `add_classes`: 64 MB of them.
_REMEMBERED = 2**24


class OpenSetSVC(OneVsRestSVM):
    """Open-set support vector classifier (OSSVM) with provably bounded acceptance regions.

    One kernel machine a class against the rest. Its objective carries ``lambda * b``, which pushes
    the bias b down; with a kernel that decays with distance, b < 0 means that the class accepts a
    bounded region only. A sample that no class accepts is answered with ``unknown_label_``.

    Parameters
    ----------
    C : float or dict {class: float}, default=1.0
        Upper bound of the multipliers.
    lam : float or dict {class: float}, default=0.0
        lambda as a fraction, in [0, 1), of the sum of the boxes of the positive samples (C times
        their number without weights). 0 is the plain SVM.
    gamma : {"scale", "auto"} or float or dict {class: float}, default="scale"
        Width of the kernel: "scale" is 1 / (d * variance of X), "auto" 1 / d.
    kernel : str or Kernel, default="rbf"
        "rbf", "t_student", "rational_quadratic", "inverse_multiquadric" or an instance of
        :class:`openset.kernels.Kernel`.
    ensure_bounded : bool, default=True
        Raise lambda of a class just enough that its bias is at most -tol. Such a value always
        exists when there is a second class; ``lam_`` tells which was used.
    class_weight : "balanced" or dict {class: float}, default=None
        Factor of C for the samples of a class.
    tol : float, default=1e-3
        Largest violation of the optimality conditions.
    max_iter : int, default=-1
        Largest number of solver iterations a machine, -1 for no limit.
    cache_size : float, default=1000
        Memory for kernel rows, in MB.
    n_jobs : int, default=None
        Threads over classes; None is 1, -1 all cores. The result does not depend on it.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where machines are trained and samples scored; "auto" takes a GPU if there is one. The
        answers agree within `tol`. A GPU needs the extra ``openset[cuda]``.
    verbose : int, default=0
        Print a line a class when positive.
    unknown_label : "auto" or int, float, str, default="auto"
        The answer for unknown samples; "auto" is -1 for numbers and "unknown" for strings, made
        different from every class if need be.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The known classes, sorted.
    unknown_label_ : object
        The answer for a sample that no class accepts.
    bounded_ : ndarray of shape (K,), bool
        Whether the region that a class accepts is bounded.
    known_radius_ : ndarray of shape (K,)
        A certificate: a sample farther than this from every positive support vector of the class
        is rejected by the class. inf where the region is not bounded.
    support_ : ndarray of shape (n_sv,)
        Indices of the support vectors of all classes.
    support_vectors_ : ndarray or CSR matrix of shape (n_sv, d)
        The support vectors.
    dual_coef_ : ndarray of shape (K, n_sv)
        y_i alpha_i.
    intercept_ : ndarray of shape (K,)
        Bias b of each class.
    gamma_, lam_ : ndarray of shape (K,)
        Kernel width and effective lambda fraction of each class.
    dual_objective_, kkt_gap_, n_iter_ : ndarray of shape (K,)
        Objective, largest violation of the optimality conditions and iterations of each machine.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, where X had string names.

    References
    ----------
    .. [1] P. R. Mendes Júnior, T. E. Boult, J. Wainer, A. Rocha, "Open-Set Support Vector
       Machines", IEEE Transactions on Systems, Man, and Cybernetics: Systems, 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from openset import OpenSetSVC
    >>> X = [[0, 0], [0, 1], [5, 5], [5, 6]]
    >>> model = OpenSetSVC(gamma=0.5).fit(X, ["left", "left", "right", "right"])
    >>> model.predict([[0, 0.5], [5, 5.5], [20, -20]])
    array(['left', 'right', 'unknown'], dtype='<U7')
    >>> model.bounded_
    array([ True,  True])
    """

    _parameter_constraints: dict = {
        **OneVsRestSVM._parameter_constraints,
        "lam": [Interval(Real, 0.0, 1.0, closed="left"), dict],
        "ensure_bounded": ["boolean"],
    }
    _traits = Traits(
        "OSSVM",
        bounded=True,
        condition="b_c < 0 for every class, which ensure_bounded=True brings about",
    )
    _min_classes = 1
    _machine_params = ("C", "lam")
    _path_param = "lam"
    _default_grid = {"C": BOXES, "gamma": SCALED_GAMMAS, "lam": FRACTIONS}
    _paper_grid = {"gamma": PAPER_GAMMAS, "lam": FRACTIONS}

    def __init__(
        self,
        C=1.0,
        lam=0.0,
        gamma="scale",
        kernel="rbf",
        ensure_bounded=True,
        class_weight=None,
        tol=1e-3,
        max_iter=-1,
        cache_size=1000,
        n_jobs=None,
        device="cpu",
        verbose=0,
        unknown_label="auto",
    ):
        self.C = C
        self.lam = lam
        self.gamma = gamma
        self.kernel = kernel
        self.ensure_bounded = ensure_bounded
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.unknown_label = unknown_label

    @_fit_context(prefer_skip_nested_validation=True)
    def add_classes(self, X, y, sample_weight=None):
        """Learn new classes beside the present ones, from the present solution on.

        The model becomes, within the tolerance of the solver, the one that :meth:`fit` would give
        for all the data; on large training sets it takes a half to a quarter of the time, less
        where the kernel is wide. The model that was fitted remembers something of its training
        samples for that (64 MB at most); a copy, or one from a file, does not, and takes longer.
        The kernel width does not follow the new data: gamma="scale" and "auto" keep the value
        ``gamma_`` they had. Parameters given as a dict have to name the new classes, too;
        ``set_params`` first.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, d)
            All samples, old and new, in any order. New samples of old classes are welcome; an old
            one may be missing only if it is not a support vector.
        y : array-like of shape (m,)
            Their classes.
        sample_weight : array-like of shape (m,), default=None
            Weight of each sample, old and new; rows of weight zero are left out.

        Returns
        -------
        self

        Examples
        --------
        >>> from openset import OpenSetSVC
        >>> X, y = [[0, 0], [0, 1], [5, 5], [5, 6]], ["left", "left", "right", "right"]
        >>> model = OpenSetSVC(gamma=0.5).fit(X, y)
        >>> X, y = [*X, [0, 9], [1, 9]], [*y, "above", "above"]
        >>> model.add_classes(X, y).predict([[0, 0.5], [0.5, 9]])
        array(['left', 'above'], dtype='<U7')
        """
        self._begin_predict(X, accept_sparse="csr")
        gamma = self.gamma_[0] if isinstance(self.gamma, str) else self.gamma
        grown = clone(self).set_params(gamma=gamma)
        setup = grown._prepare(X, y, sample_weight, self._min_classes)
        labels = grown.classes_.tolist()
        if gone := [c for c in self.classes_.tolist() if c not in labels]:
            raise ValueError(
                f"y has no samples of {gone}, which the model knows: add_classes takes all data, "
                "old and new. Use fit to train without a class."
            )
        row = {labels.index(c): k for k, c in enumerate(self.classes_.tolist())}
        trained = getattr(self, "_trained", None)
        present = Present(self.support_vectors_, self.dual_coef_, row, trained, setup)
        if missing := np.sum(present.found < 0):
            raise ValueError(
                f"{missing} of the {len(present.found)} support vectors of the model are not in "
                "X: add_classes takes all data, old and new, scaled as before. Use fit otherwise."
            )
        grown._store(setup, grown._train_all(setup, partial(train_from, present)))
        vars(self).update(vars(grown) | self.get_params(deep=False))
        return self

    def _check_kernel(self, kernel):
        if not kernel.decaying:
            raise ValueError(
                f"kernel={self.kernel!r} does not decay with distance, so no region can be "
                "bounded. Choose a decaying kernel such as 'rbf', or OneVsRestSVC."
            )
        if len(self.classes_) == 1 and self._per_class("lam", self.lam)[0] == 0:
            raise ValueError(
                "lam=0 is not defined for a training set of one class "
                f"({self.classes_.tolist()!r}): without negatives lam is the fraction of samples "
                "that may be left outside. Choose lam in (0, 1)."
            )

    def _problem(self, signs, weight, C, lam):
        boxes = C * weight
        if np.any(signs < 0):
            problem = svm_problem(signs, boxes, 0.0)
        else:
            problem = one_class_problem(signs > 0, 0.0, boxes)
        return problem, lam * problem.upper.sum()

    def _machine(self, path, rows, stop, C, lam):
        solution, problem = path[0], path.problem
        lam = float(lam[0])
        alone = not np.any(problem.lower)
        if self.ensure_bounded and solution.bias > -self.tol and not alone:
            settings = {"tol": self.tol, "max_iter": self.max_iter, "stop": stop}
            solution = lower_bias(problem, solution, rows, -self.tol, **settings)
            lam = max(lam, float(solution.beta.sum() / problem.upper.sum()))
        few = len(problem.p) * len(self.classes_) <= _REMEMBERED
        return Machine.of(
            solution,
            extra=lam,
            sums=(problem.p - solution.v).astype(np.float32) if few else None,
        )

    def _store(self, setup, machines):
        super()._store(setup, machines)
        sums = [machine.sums for machine in machines]
        self._trained = None if sums[0] is None else Trained(setup, sums)

    def __getstate__(self):
        # What only add_classes needs, and can do without, does not travel with the model.
        return {k: v for k, v in super().__getstate__().items() if k != "_trained"}

    def _conclude(self, setup, extras):
        super()._conclude(setup, extras)
        self.lam_ = np.array(extras)
