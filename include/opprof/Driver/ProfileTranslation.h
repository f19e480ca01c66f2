// Profiles in opprof-translate.

#ifndef OPPROF_DRIVER_PROFILETRANSLATION_H
#define OPPROF_DRIVER_PROFILETRANSLATION_H

namespace opprof::profile {

/// Registers --attribute-profile and its options --launches and --partitions.
void registerProfileTranslations();

} // namespace opprof::profile

#endif // OPPROF_DRIVER_PROFILETRANSLATION_H
