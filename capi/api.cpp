// tw_get_api: the table of all functions.
#include "tilewright/api.h"

extern "C" const tw_api* tw_get_api(uint32_t major, size_t caller_size) {
  static const tw_api table = {
      sizeof(tw_api),
#include "capi/api_table.inc"
  };
  return major == TW_API_MAJOR && caller_size <= sizeof(tw_api) ? &table : nullptr;
}
