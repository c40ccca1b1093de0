"""Fetching from the Penn Machine Learning Benchmarks, by their own package."""


def fetch(name: str):
    """Fetch a dataset.

    Parameters
    ----------
    name : str
        Its name in PMLB.

    Returns
    -------
    DataFrame
        The features and, last, the column ``target``.
    """
    try:
        from pmlb import fetch_data
    except ImportError as error:
        raise ImportError(
            f"the dataset {name!r} is not in the data home, and fetching it needs the package "
            "pmlb; run: pip install pmlb",
            name="pmlb",
        ) from error
    try:
        return fetch_data(name)
    except Exception as error:  # the network, the server, or a name that PMLB has changed
        raise OSError(
            f"PMLB did not give the dataset {name!r} ({type(error).__name__}: {error}); try again "
            "where there is a network, or put the file into the data home."
        ) from error
