"""Makes the wheel of this package (PEP 517), with the two libraries from a build of Varve inside.

They are taken from VARVE_LIBRARY (a libvarve.so) and VARVE_HDF5_PLUGINS (a folder), else from build/release. Needs
nothing but Python, so that `pip install tools/python` works without a network.
"""

import base64
import hashlib
import os
import pathlib
import sysconfig
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build" / "release"


def _libraries():
    """Where the libraries are, by their place in the package."""
    library = pathlib.Path(os.environ.get("VARVE_LIBRARY") or BUILD / "codec" / "libvarve.so")
    plugins = pathlib.Path(os.environ.get("VARVE_HDF5_PLUGINS") or BUILD / "tools" / "hdf5" / "plugins")
    found = {"libvarve.so": library, "hdf5_plugins/libh5varve.so": plugins / "libh5varve.so"}
    missing = [str(path) for path in found.values() if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"{', '.join(missing)} not found: build Varve first (cmake --preset release && ninja -C build/release), "
            "or set VARVE_LIBRARY and VARVE_HDF5_PLUGINS"
        )
    return found


def _metadata(project):
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}"]
    lines += [f"Summary: {project['description']}", f"License: {project['license']['text']}"]
    lines += [f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {name}" for name in project["dependencies"]]
    for extra, names in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}"] + [f'Requires-Dist: {name} ; extra == "{extra}"' for name in names]
    return "\n".join(lines) + "\n"


def _entry_points(project):
    groups = project["entry-points"].items()
    return "".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in groups)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    tag = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    name = f"{project['name']}-{project['version']}"
    files = {f"varve/{path.name}": path.read_bytes() for path in sorted((HERE / "varve").glob("*.py"))}
    files |= {f"varve/{place}": path.read_bytes() for place, path in _libraries().items()}
    wheel = f"Wheel-Version: 1.0\nGenerator: varve\nRoot-Is-Purelib: false\nTag: {tag}\n"
    info = {"METADATA": _metadata(project), "WHEEL": wheel, "entry_points.txt": _entry_points(project)}
    files |= {f"{name}.dist-info/{place}": text.encode() for place, text in info.items()}
    record = ""
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / f"{name}-{tag}.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for place, content in files.items():
            archive.writestr(place, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{place},sha256={digest},{len(content)}\n"
        archive.writestr(f"{name}.dist-info/RECORD", record + f"{name}.dist-info/RECORD,,\n")
    return f"{name}-{tag}.whl"


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("install from the tree: pip install tools/python")
