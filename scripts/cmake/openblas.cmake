# The target tapehead::openblas, where OpenBLAS is found; else no such target. The installed package
# runs this file again, so that the library is looked up on the consumer's machine.
# Debian chooses the flavour (pthread, openmp, serial) behind the name openblas when a program
# starts; Fedora has one name per flavour, and openblasp is pthread. Homebrew links neither into its
# prefix.
set(TAPEHEAD_HOMEBREW /opt/homebrew/opt/openblas /usr/local/opt/openblas)
find_library(TAPEHEAD_OPENBLAS_LIBRARY NAMES openblasp openblas NAMES_PER_DIR
             HINTS ${TAPEHEAD_HOMEBREW} PATH_SUFFIXES lib)
mark_as_advanced(TAPEHEAD_OPENBLAS_LIBRARY)
if(TAPEHEAD_OPENBLAS_LIBRARY AND NOT TARGET tapehead::openblas)
  add_library(tapehead::openblas UNKNOWN IMPORTED)
  set_target_properties(tapehead::openblas PROPERTIES
                        IMPORTED_LOCATION "${TAPEHEAD_OPENBLAS_LIBRARY}")
endif()
