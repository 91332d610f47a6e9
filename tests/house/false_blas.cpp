// A library that calls itself OpenBLAS and is wrong, to show that configuring notices. With -DWIDE
// it claims 64-bit integers, which the header does not have.
extern "C" {

const char* openblas_get_config() {
#ifdef WIDE
  return "OpenBLAS 0.0.0 USE64BITINT";
#else
  return "OpenBLAS 0.0.0";
#endif
}

const char* openblas_get_corename() { return "None"; }

int openblas_get_parallel() { return 0; }

// c stays as it was.
void cblas_sgemm() {}
void cblas_dgemm() {}
}
