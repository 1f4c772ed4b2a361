# Spack recipe of the verbs BTL. SPDX-License-Identifier: BSD-3-Clause
#
#   spack repo add contrib/spack
#   spack install openmpi-verbs ^openmpi@5
#   spack load openmpi-verbs && mpirun ./program
#
# Until there are releases to download, name the tree that it is built from:
#   spack dev-build --source-path CHECKOUT openmpi-verbs@main ^openmpi@5

import os

from spack.package import *


class OpenmpiVerbs(AutotoolsPackage):
    """Native RDMA transport (BTL) of Open MPI over libibverbs: MPI on InfiniBand and RoCEv2 without
    UCX or libfabric."""

    license("BSD-3-Clause")

    # A place that does not exist: dev-build, above, does not look there.
    version("main", branch="main", git="https://verbs.invalid/verbs.git")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("openmpi@4.1:5", type=("build", "link", "run"))
    depends_on("rdma-core@28:")
    depends_on("libnl")

    # Open MPI loads components of its own series only.
    conflicts("^openmpi@:4.0")

    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()

    def configure_args(self):
        return ["--disable-tests", "--with-ompi=%s" % self.spec["openmpi"].prefix,
                "--with-modulefiles=no"]

    def setup_run_environment(self, env):
        # ours first: a folder that does not exist hides those behind it
        env.append_path("OMPI_MCA_mca_base_component_path", os.path.join(self.prefix.lib, "openmpi"))
        env.append_path("OMPI_MCA_mca_base_component_path",
                        os.path.join(self.spec["openmpi"].prefix.lib, "openmpi"))
        env.set("OMPI_MCA_pml", "ob1")
        env.set("OMPI_MCA_osc_rdma_btls", "verbs")
        # libpmix looks through the same path and would complain of a file that is not its own.
        env.set("PMIX_MCA_mca_base_component_show_load_errors", "none")
