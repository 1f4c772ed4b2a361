# Packages of a distribution, made from the tarball. SPDX-License-Identifier: BSD-3-Clause
#
# The tarball is the same for the same revision, whoever makes it and when: files in order, without
# owners, with the date of SOURCE_DATE_EPOCH or of the last commit. In an unpacked tarball, that is
# the date of its files.

EXTRA_DIST += tools/make-deb

DIST_DATE = $${SOURCE_DATE_EPOCH:-`git -C $(top_srcdir) log -1 --format=%ct 2>/dev/null || \
	stat -c %Y $(top_srcdir)/configure.ac`}
am__tar = $${TAR-tar} --format=ustar --sort=name --mtime="@$(DIST_DATE)" --owner=0 --group=0 \
	--numeric-owner --mode=u+w,go-w,a+rX -chf - "$$tardir"
GZIP_ENV = -9n

deb: dist
	OMPI_SOURCE='$(OMPI_SOURCE)' $(srcdir)/tools/make-deb $(distdir).tar.gz deb
.PHONY: deb
