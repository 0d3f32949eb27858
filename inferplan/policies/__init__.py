if __name__ != "inferplan.policies":
    # The link policies/ at the top of the repository is for readers: a module imported through it
    # would exist twice.
    raise ImportError(f"{__name__} is not a package of its own. Import inferplan.policies instead.")
