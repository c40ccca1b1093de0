"""Files that once ended the process, showed fresh memory, or unpacked to gigabytes."""

import json
import zipfile
from functools import partial
from io import BytesIO

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    OneHotEncoder,
    PolynomialFeatures,
)
from sklearn.svm import SVC

from openset import OpenSetSVC
from openset.persistence import ModelFileError, load_model, save_model
from openset.persistence._checks import check_model
from openset.wrappers import ThresholdRejector

from .models import TEXTS, X, Y, models

FITTED = {name: model for name, model, _ in models() if name.split("-")[0] in ("table", "text")}


def _rewritten(path, change, compress=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compress) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def _hang(model, thing):
    """Keep a thing where only a full walk finds it."""
    model.extra_ = thing
    return model


def _damaged_svc():
    svc = SVC().fit(X, Y)
    svc._n_support = svc._n_support + 1000
    return svc


def _objects(thing):
    array = np.empty(1, dtype=object)
    array[0] = thing
    return array


@pytest.mark.parametrize(
    "hide",
    [
        _objects,
        lambda svc: [{"a": (svc,)}],
        lambda svc: {svc},
        lambda svc: np.ma.MaskedArray(_objects(svc)),
        lambda svc: partial(svc.predict),
        lambda svc: svc.predict,
        lambda svc: make_pipeline(MaxAbsScaler(), svc),
    ],
    ids=["array", "containers", "set", "masked", "partial", "method", "pipeline"],
)
def test_a_damaged_svc_is_refused_wherever_it_hangs(hide, tmp_path):
    model = _hang(ThresholdRejector(LogisticRegression()).fit(X, Y), hide(_damaged_svc()))
    with pytest.raises(ModelFileError, match=r"cannot save"):
        save_model(model, tmp_path / "m.skops")
    assert not (tmp_path / "m.skops").exists()


@pytest.mark.parametrize("form", ["csc", "coo", "bsr", "dia", "lil", "dok"])
def test_other_sparse_formats_are_refused(form, tmp_path):
    model = _hang(OpenSetSVC().fit(X, Y), sparse.csr_array(X).asformat(form))
    with pytest.raises(ModelFileError, match="cannot save"):
        save_model(model, tmp_path / "m.skops")


def test_a_sparse_matrix_in_a_transformer(tmp_path):
    from sklearn.random_projection import SparseRandomProjection

    model = make_pipeline(SparseRandomProjection(3, random_state=0), OpenSetSVC()).fit(X, Y)
    model[0].components_.indices[-1] = 10**6
    with pytest.raises(ModelFileError, match="pointers or indices out of range"):
        save_model(model, tmp_path / "m.skops")


def _one_hot():
    return make_pipeline(OneHotEncoder(handle_unknown="ignore"), ThresholdRejector(SVC())).fit(X, Y)


@pytest.mark.parametrize(
    "damage",
    [
        lambda e: e._n_features_outs.__setitem__(-1, 1),
        lambda e: e.categories_.__setitem__(3, e.categories_[3][::-1].copy()),
        lambda e: e.categories_.append(e.categories_[0]),
        lambda e: setattr(e, "_drop_idx_after_grouping", np.array([99] * 4, dtype=object)),
    ],
)
def test_an_encoder_that_would_count_wrongly(damage, tmp_path):
    model = _one_hot()
    damage(model[0])
    with pytest.raises(ModelFileError, match="OneHotEncoder"):
        save_model(model, tmp_path / "m.skops")


def test_the_encoder_of_a_discretizer(tmp_path):
    model = FITTED["table-mixed"]
    encoder = model[0].named_transformers_["bins"]._encoder
    kept = list(encoder._n_features_outs)
    encoder._n_features_outs[-1] -= 1
    try:
        with pytest.raises(ModelFileError, match="OneHotEncoder"):
            save_model(model, tmp_path / "m.skops")
    finally:
        encoder._n_features_outs[:] = kept


@pytest.mark.parametrize("name", ["text-counts", "text-tfidf", "text-records"])
def test_a_vocabulary_out_of_range(name, tmp_path):
    model = FITTED[name]
    words = model[0].vocabulary_
    word = next(iter(words))
    kept, words[word] = words[word], 10**6
    try:
        with pytest.raises(ModelFileError, match="vocabulary_"):
            save_model(model, tmp_path / "m.skops")
    finally:
        words[word] = kept


def test_neighbours_whose_classes_are_out_of_range(tmp_path):
    model = ThresholdRejector(KNeighborsClassifier(algorithm="brute")).fit(X, Y)
    model.estimator_._y = model.estimator_._y + 10**6
    with pytest.raises(ModelFileError, match="_y names a class"):
        save_model(model, tmp_path / "m.skops")


def test_columns_that_no_product_fills(tmp_path):
    model = make_pipeline(PolynomialFeatures(2), OpenSetSVC()).fit(X, Y)
    model[0]._n_out_full += 5
    with pytest.raises(ModelFileError, match="_n_out_full"):
        save_model(model, tmp_path / "m.skops")


def test_a_ufunc_that_skips_rows(tmp_path):
    skip = {"where": np.zeros(4, dtype=bool)}
    model = make_pipeline(FunctionTransformer(np.exp, kw_args=skip), MaxAbsScaler(), OpenSetSVC())
    model.steps[-1][1].fit(X, Y)
    model[0].fit(X), model[1].fit(X)
    with pytest.raises(ModelFileError, match="kw_args"):
        save_model(model, tmp_path / "m.skops")


def test_a_model_without_its_labels_is_checked():
    model = OpenSetSVC().fit(X, Y)
    del model.classes_
    with pytest.raises(ValueError, match="OpenSetSVC"):
        check_model(model)


def _bomb(n_zeros):
    file = BytesIO()
    np.save(file, np.zeros(n_zeros, dtype=np.int8))
    return file.getvalue()


def test_the_size_check_reads_json_as_the_reader_does(tmp_path):
    path = tmp_path / "m.skops"
    save_model(OpenSetSVC().fit(X, Y), path)

    def change(members):
        schema = json.loads(members["schema.json"])
        content = schema["content"]["content"]
        array = content["support_vectors_"]
        members["bomb.npy"] = _bomb(2**26)
        types = schema["content"]["key_types"]["content"]
        for k in range(30):
            content[f"a{k}"] = array | {"file": "bomb.npy", "__id__": 10 + k}
            types.append(types[0])
        text = json.dumps(schema).replace('"file": "bomb', '"fil\\u0065": "bomb')
        members["schema.json"] = text.encode()

    _rewritten(path, change)
    with pytest.raises(ModelFileError, match="would unpack to"):
        load_model(path)


@pytest.mark.parametrize("shape", ["(10000000000,)", "(0, 10000000000000)", "(9, 9)"])
def test_a_header_that_promises_more_than_there_is(shape, tmp_path):
    path = tmp_path / "m.skops"
    save_model(OpenSetSVC().fit(X, Y), path)

    def change(members):
        for name in [name for name in members if name.endswith(".npy")]:
            header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117)
            members[name] = b"\x93NUMPY\x01\x00v\x00" + header.encode() + b"\n"

    _rewritten(path, change)
    with pytest.raises(ModelFileError, match=r"header states|would unpack"):
        load_model(path)


def test_a_description_that_is_deep_or_dense(tmp_path):
    path = tmp_path / "m.skops"
    for text in ("[" * 10**6, "[" + "[]," * 2 * 10**7 + "[]]"):
        save_model(OpenSetSVC().fit(X, Y), path)
        _rewritten(path, lambda members, text=text: members.update({"schema.json": text.encode()}))
        with pytest.raises(ModelFileError):
            load_model(path)


def test_a_member_that_occurs_twice(tmp_path):
    path = tmp_path / "m.skops"
    save_model(OpenSetSVC().fit(X, Y), path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("schema.json", archive.read("schema.json"))
    with pytest.raises(ModelFileError, match="occurs twice"):
        load_model(path)


def test_what_compresses_well_is_saved_and_loaded(tmp_path):
    model = ThresholdRejector(LogisticRegression()).fit(X, Y)
    _hang(model, np.zeros(3 * 10**7))
    save_model(model, tmp_path / "m.skops")
    assert len(load_model(tmp_path / "m.skops").extra_) == 3 * 10**7


def test_damaged_sparse_data_is_refused_where_it_enters():
    model = OpenSetSVC().fit(sparse.csr_array(X), Y)
    for form in ("csr", "csc", "coo"):
        damaged = sparse.csr_array(X).asformat(form)
        (damaged.coords[1] if form == "coo" else damaged.indices)[-1] = 10**6
        for use in (model.predict, lambda Z: OpenSetSVC().fit(Z, Y)):
            with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
                use(damaged)


def test_intact_models_of_texts_are_kept(tmp_path):
    model = FITTED["text-counts"]
    save_model(model, tmp_path / "m.skops")
    same = load_model(tmp_path / "m.skops").decision_function(TEXTS)
    np.testing.assert_array_equal(same, model.decision_function(TEXTS))
