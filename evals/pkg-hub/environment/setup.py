from setuptools import setup

setup(name="squared_relu", packages=["squared_relu"], package_dir={"": "torch-ext"}, install_requires=["torch", "einops"])
