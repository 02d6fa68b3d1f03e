"""Names of releases from the number that clients send with each request (MQVersion.java)."""

# MQVersion ordinal of V4_0_0; from there on every patch release has a snapshot before it.
FIRST_NAMED_VERSION = 213


def version_name(ordinal: int) -> str:
    """Return "5.3.3" for MQVersion ordinal 479; the number itself for releases before 4.0."""
    if ordinal < FIRST_NAMED_VERSION:
        return str(ordinal)
    release, is_snapshot = divmod(ordinal - FIRST_NAMED_VERSION + 1, 2)
    major, rest = divmod(release, 100)
    name = f"{4 + major}.{rest // 10}.{rest % 10}"
    return name if is_snapshot else f"{name}-SNAPSHOT"


def version_ordinal(name: str) -> int:
    """Return the MQVersion ordinal of a release like 5.3.3. Raises ValueError."""
    major, minor, patch = (int(part) for part in name.split("."))
    if major < 4 or not 0 <= minor <= 9 or not 0 <= patch <= 9:
        raise ValueError(name)
    return FIRST_NAMED_VERSION + 2 * ((major - 4) * 100 + minor * 10 + patch)
