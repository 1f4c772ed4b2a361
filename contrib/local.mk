# Build rules of contrib/, included by the top Makefile.am. SPDX-License-Identifier: BSD-3-Clause
#
# The environment modules name the folders of this installation, so they are made at install time,
# when the last word on prefix has been spoken (make install prefix=...). Like what install(1) places,
# they are for all to read, whatever the umask of root is.

EXTRA_DIST += contrib

include contrib/packages.mk

MODULE_NAME = $(PACKAGE_VERSION)-ompi$(OMPI_SERIES)
MODULE_EDIT = $(SED) \
	-e 's|@VERSION[@]|$(PACKAGE_VERSION)|g' -e 's|@OMPI_SERIES[@]|$(OMPI_SERIES)|g' \
	-e 's|@prefix[@]|$(prefix)|g' -e 's|@componentdir[@]|$(componentdir)|g' \
	-e 's|@paramfile[@]|$(sysconfdir)/verbs-mca-params.conf|g' \
	-e 's|@ompi_sysconfdir[@]|$(OMPI_SYSCONFDIR)|g' -e 's|@RIVALS[@]|$(OMPI_RIVALS)|g'
if VRB_OMPI_DSO
MODULE_EDIT += -e 's|@SYS_DEFAULT_TCL[@]|append-path OMPI_MCA_mca_base_component_path SYS_DEFAULT\n|' \
	-e 's|@SYS_DEFAULT_LUA[@]|append_path("OMPI_MCA_mca_base_component_path", "SYS_DEFAULT")\n|'
else
MODULE_EDIT += -e 's|@SYS_DEFAULT_TCL[@]||' -e 's|@SYS_DEFAULT_LUA[@]||'
endif

if VRB_OMPI_PMIX5
MODULE_EDIT += -e 's|@QUIET_TCL[@]||' -e 's|@QUIET_LUA[@]||'
else
MODULE_EDIT += -e '/@QUIET_/d'
endif

# Of a prefix that the system shares, unloading the module would take bin out of PATH.
MODULE_EDIT += $(if $(filter /usr /usr/local,$(prefix)),-e '/@OWN_BIN@/d',-e 's|@OWN_BIN[@]||')

if VRB_MODULEFILES
install-data-local:
	$(MKDIR_P) '$(DESTDIR)$(sysconfdir)' '$(DESTDIR)$(modulefilesdir)/verbs'
	$(MODULE_EDIT) '$(srcdir)/contrib/modules/verbs-mca-params.conf.in' \
	    >'$(DESTDIR)$(sysconfdir)/verbs-mca-params.conf'
	$(MODULE_EDIT) '$(srcdir)/contrib/modules/verbs.tcl.in' \
	    >'$(DESTDIR)$(modulefilesdir)/verbs/$(MODULE_NAME)'
	$(MODULE_EDIT) '$(srcdir)/contrib/modules/verbs.lua.in' \
	    >'$(DESTDIR)$(modulefilesdir)/verbs/$(MODULE_NAME).lua'
	chmod 755 '$(DESTDIR)$(modulefilesdir)/verbs'
	chmod 644 '$(DESTDIR)$(sysconfdir)/verbs-mca-params.conf' \
	    '$(DESTDIR)$(modulefilesdir)/verbs/$(MODULE_NAME)' \
	    '$(DESTDIR)$(modulefilesdir)/verbs/$(MODULE_NAME).lua'

uninstall-local:
	rm -f '$(DESTDIR)$(sysconfdir)/verbs-mca-params.conf' \
	    '$(DESTDIR)$(modulefilesdir)/verbs/$(MODULE_NAME)' \
	    '$(DESTDIR)$(modulefilesdir)/verbs/$(MODULE_NAME).lua'
	-rmdir '$(DESTDIR)$(modulefilesdir)/verbs' 2>/dev/null

# An installation of its own leaves no empty folder but the prefix, which may have been there before;
# folders that others use are not empty.
uninstall-hook:
	-for dir in '$(componentdir)' '$(libdir)' '$(sysconfdir)' '$(modulefilesdir)' '$(bindir)' \
	    '$(mandir)/man1' '$(mandir)/man7' '$(mandir)' '$(helpdir)' '$(datadir)'; do \
	    rmdir "$(DESTDIR)$$dir" 2>/dev/null; done; true
endif
