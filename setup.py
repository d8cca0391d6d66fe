"""Puts the notebooks into the package when a wheel is built; everything else is in pyproject.toml."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithNotebooks(build_py):
    """In a checkout, and so in an editable install, `localgraphrag lab` finds the folder itself."""

    def run(self) -> None:
        """Build the package, then copy the notebooks into it."""
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib, "localgraphrag", "notebook", "lessons")
        self.mkpath(str(target))
        for notebook in sorted(Path("notebooks").glob("*.ipynb")):
            self.copy_file(str(notebook), str(target / notebook.name))


setup(cmdclass={"build_py": BuildWithNotebooks})
