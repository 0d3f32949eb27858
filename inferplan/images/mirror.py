"""Names of images in a mirror: the whole upstream name below the mirror's, as `skopeo sync
--scoped` copies them.
"""


def full_name(image: str) -> str:
    """`image` with its registry, which is docker.io for a name without one."""
    first, slash, _ = image.partition("/")
    if not slash:
        return f"docker.io/library/{image}"
    return image if "." in first or ":" in first or first == "localhost" else f"docker.io/{image}"


def mirrored(image: str, mirror: str) -> str:
    """The name of `image` in `mirror`; an image of the mirror stays as it is."""
    return image if image.startswith(f"{mirror}/") else f"{mirror}/{full_name(image)}"


def upstream(image: str, mirror: str | None) -> str:
    """The name that `image` has outside of `mirror`."""
    rest = image.removeprefix(f"{mirror}/")
    first, slash, _ = rest.partition("/")
    return rest if slash and ("." in first or ":" in first) else image


def names_of(image: str) -> list[str]:
    """`image`, and the upstream names that it may have below a mirror: what follows a slash and
    starts with a registry.
    """
    parts = image.split("/")
    return [
        image,
        *(
            "/".join(parts[start:])
            for start in range(1, len(parts) - 1)
            if "." in parts[start].partition(":")[0]
        ),
    ]
