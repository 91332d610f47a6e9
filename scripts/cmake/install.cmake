# `cmake --install`: the library, its headers, the program, and what find_package(tapehead) and
# pkg-config read.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tapehead)

install(TARGETS tapehead EXPORT tapehead)
install(DIRECTORY include/tapehead DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.hpp")
if(TARGET tapehead_cli)
  install(TARGETS tapehead_cli)
endif()

install(EXPORT tapehead NAMESPACE tapehead:: FILE tapeheadTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tapeheadConfig.cmake.in
  ${PROJECT_BINARY_DIR}/tapeheadConfig.cmake INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a new minor version may change what users call.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tapeheadConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tapeheadConfig.cmake
              ${PROJECT_BINARY_DIR}/tapeheadConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/openblas.cmake
        DESTINATION ${package_dir})

# A static library brings along what it links. The prefix is found from where the file lies, so that
# `cmake --install --prefix` may put it anywhere.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
           BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE pc_prefix)
set(pc_libs "-pthread")
if(CMAKE_DL_LIBS)
  string(PREPEND pc_libs "-l${CMAKE_DL_LIBS} ")
endif()
get_target_property(library_type tapehead TYPE)
if(library_type STREQUAL "SHARED_LIBRARY")
  set(pc_private .private)
  set(pc_libs_private " ${pc_libs}")
else()
  set(pc_libs_public " ${pc_libs}")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/tapehead.pc.in ${PROJECT_BINARY_DIR}/tapehead.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tapehead.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
