// This empty file lets a function be declared without a body: see newManagerImpl.
