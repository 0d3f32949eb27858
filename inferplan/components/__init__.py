if __name__ != "inferplan.components":
    # The link components/ at the top of the repository is for readers: a module imported through it would exist twice.
    raise ImportError(f"{__name__} is not a package of its own. Import inferplan.components instead.")
