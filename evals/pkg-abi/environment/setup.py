from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

sources = ["torch-ext/torch_binding.cpp", "kernel_src/row_scale.cu"]
setup(name="row_scale", packages=["row_scale"], package_dir={"": "torch-ext"}, cmdclass={"build_ext": BuildExtension},
      ext_modules=[CUDAExtension("row_scale._C", sources)])
