# Layouts of the databases.  The numbers are in layouts.pxd; the stub (layouts.pyi) names them for Python.
