if __name__ != "inferplan.infra":
    # The link infra/ at the top of the repository is for readers: a module imported through it
    # would exist twice.
    raise ImportError(f"{__name__} is not a package of its own. Import inferplan.infra instead.")
